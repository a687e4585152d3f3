// Decides a check whose counters failed in the store: each counter by its rule's on_store_failure,
// then all of them together with those that the store decided.
#include <algorithm>

#include "limiter/check_call.h"
#include "limiter/limiter.h"
#include "store/late_check.h"

namespace sluice {
namespace {

// The retry_after of a denial that no counter explains: the store may be back by then.
constexpr Duration kOutageRetry = std::chrono::seconds(1);

bool Writes(Mode mode) { return mode == Mode::kCharge || mode == Mode::kRefund; }

}  // namespace

void CheckCall::OnFailure(SteadyTime now) {
  bool caller_is_late = false;
  for (const CounterCheck& counter : check_.counters) {
    caller_is_late |= counter.failure == StoreFailure::kCallerTimeout;
  }
  limiter_.metrics_.CountFailure(*check_.failure());
  limiter_.parts_.fallback.Learn(check_);
  RememberDenials(now);
  if (caller_is_late) return RefuseLate();
  Fallback& fallback = limiter_.parts_.fallback;
  for (const CounterCheck& counter : check_.counters) {
    const bool is_lost = counter.failure && counter.failure != StoreFailure::kOverloaded;
    if (!is_lost || !limiter_.falls_back()) continue;
    fallback.recovery.OnFailure(PartOf(counter), fallback.clock.Now());
  }
  FallBack();
}

std::size_t CheckCall::PartOf(const CounterCheck& counter) const {
  return limiter_.parts_.store.PartOf(counter.key);
}

// The store has decided: whether none of its parts that did has failed recently.
bool CheckCall::HasRecovered() {
  Fallback& fallback = limiter_.parts_.fallback;
  bool recovered = true;
  for (const CounterCheck& counter : check_.counters) {
    const std::size_t part = PartOf(counter);
    fallback.OnPartFound(part);
    recovered &= !fallback.Settles(part);
  }
  return recovered;
}

// Whether this check is decided locally instead of by the store: see Recovery. Writes that are not
// admission checks go to the store; they create no quota.
bool CheckCall::StaysLocal() {
  Fallback& fallback = limiter_.parts_.fallback;
  if (Writes(check_.demand.mode) && !request.charge_decides) return false;
  bool settles = false;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const bool local = answer().limits[i].rule->rule.on_store_failure == OnStoreFailure::kLocal;
    settles |= local && fallback.Settles(PartOf(check_.counters[i]));
  }
  if (settles) check_.Fail(StoreFailure::kUnreachable);
  return settles;
}

// A deadline set by the caller is not a store failure, so no policy applies.
void CheckCall::RefuseLate() {
  if (check_.demand.mode == Mode::kConsume) DetachedUndo();
  if (Writes(check_.demand.mode)) limiter_.metrics_.lost_writes.Increment();
  Refuse({ErrorCode::kDeadlineExceeded, "the deadline passed before the request was decided"});
}

void CheckCall::FallBack() {
  falling_back_ = true;
  bool denied = false;
  bool any_local = false;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const CounterCheck& counter = check_.counters[i];
    LimitAnswer& limit = answer().limits[i];
    if (counter.failure) {
      FollowPolicy(limit, *counter.failure);
      any_local |= limit.state_known;
    } else {
      limit.verdict = counter.verdict;
      answer().decided_at = check_.decided_at;
    }
    denied |= limit.denies();
  }
  local_check_.demand = check_.demand;
  // If another limit has denied already, nothing is charged.
  Mode& mode = local_check_.demand.mode;
  if (fallback_error_ || (denied && mode == Mode::kConsume)) mode = Mode::kPeek;
  any_local ? DecideLocally() : FinishFallback();
}

// Applies the rule's policy to a limit whose counter failed. `state_known`: the local store will
// still decide. Overload is not an outage: a policy that allows requests would admit the flood.
void CheckCall::FollowPolicy(LimitAnswer& limit, StoreFailure failure) {
  const OnStoreFailure policy = limit.rule->rule.on_store_failure;
  const bool local = policy == OnStoreFailure::kLocal;
  const bool overloaded = local && failure == StoreFailure::kOverloaded;
  limit.source = Source::kFallback;
  limit.state_known = local && !overloaded;
  limit.verdict = {.admitted = policy != OnStoreFailure::kDeny && !overloaded,
                   .retry_after = overloaded ? limiter_.options_.store_timeout : kOutageRetry};
  fallback_error_ |= policy == OnStoreFailure::kError && !limit.rule->rule.shadow;
}

void CheckCall::DecideLocally() {
  local_.clear();
  local_.reserve(check_.counters.size());  // so that pointers into it remain valid
  local_check_.counters.clear();
  local_check_.lease = check_.lease;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const CounterCheck& counter = check_.counters[i];
    if (!counter.failure || !answer().limits[i].state_known) continue;
    const auto& local =
        local_.emplace_back(limiter_.parts_.fallback.Localize(counter.key, *counter.limit));
    local_check_.counters.push_back({.key = counter.key,
                                     .limit = &local.limit,
                                     .group = counter.group,
                                     .seed = local.seed ? &*local.seed : nullptr,
                                     .verdict = {}});
  }
  limiter_.parts_.local.Submit(local_check_);
}

void CheckCall::OnLocallyDecided() {
  auto decided = local_check_.counters.begin();
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    LimitAnswer& limit = answer().limits[i];
    if (!check_.counters[i].failure || !limit.state_known) continue;
    const CounterCheck& counter = *decided++;
    // Without room for the counter its state is unknown, and the check is not admitted.
    limit.state_known = !counter.failure;
    if (counter.failure) {
      limit.verdict.admitted = false;
      continue;
    }
    limit.verdict = counter.verdict;
    // The cost exceeds this server's share, but the store may still admit it.
    if (limit.verdict.retry_after == Verdict::kNever) limit.verdict.retry_after = kOutageRetry;
    answer().decided_at = local_check_.decided_at;
  }
  FinishFallback();
}

void CheckCall::FinishFallback() {
  CountLostWrite();
  const bool denied = answer().AnyLimitDenies();
  const bool consumes = check_.demand.mode == Mode::kConsume;
  if (consumes && (denied || fallback_error_)) {
    DetachedUndo();
  } else {
    RecordFallbackCharges();
  }
  if (fallback_error_ && !denied) {
    return Refuse({ErrorCode::kUnavailable,
                   "the store does not answer, and the rule says on_store_failure: error"});
  }
  DecideByVerdicts();
}

// The check is not admitted: what the store granted, or may still grant, is undone.
void CheckCall::DetachedUndo() {
  if (check_.late != nullptr) check_.late->undo = true;
  const bool charged = std::any_of(check_.counters.begin(), check_.counters.end(),
                                   [](const auto& it) { return !it.failure && it.charged; });
  if (charged) limiter_.parts_.store.Undo(check_);
}

// Records units that a policy admitted without the store, to be charged when it is back. Checks
// that may have run in the store are not recorded: they would be charged twice.
void CheckCall::RecordFallbackCharges() {
  const Demand& demand = check_.demand;
  if (demand.mode == Mode::kPeek || demand.mode == Mode::kRefund || fallback_error_) return;
  for (std::size_t i = 0; i < check_.counters.size() && check_.counters[i].group == 0; ++i) {
    const CounterCheck& counter = check_.counters[i];
    const LimitAnswer& limit = answer().limits[i];
    const bool counts = limit.state_known || demand.mode == Mode::kConsume;
    if (!counter.failure || !counts || !Supports(*counter.limit, Mode::kCharge)) continue;
    const std::int64_t cost = demand.cost - limit.verdict.dropped;
    const auto units = static_cast<std::uint64_t>(cost);
    const LimiterMetrics& metrics = limiter_.metrics_;
    if (counter.failure == StoreFailure::kTimeout) {
      metrics.units_unknown.Increment(units);
    } else if (limiter_.parts_.fallback.RecordCharge(counter.key, *counter.limit, cost)) {
      metrics.units_owed.Increment(units);
    } else {
      metrics.units_not_kept.Increment(units);
    }
  }
}

// Counts a charge or refund that a counter did not get, or may not have got.
void CheckCall::CountLostWrite() const {
  if (!Writes(request.demand.mode) || request.demand.cost == 0) return;
  const auto& limits = answer_.value().limits;
  bool lost = fallback_error_;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    lost |= !limits[i].state_known || check_.counters[i].failure == StoreFailure::kTimeout;
  }
  if (lost) limiter_.metrics_.lost_writes.Increment();
}

}  // namespace sluice
