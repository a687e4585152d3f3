#include "limiter/failure_policy.h"

#include "limiter/limiter.h"

namespace sluice {
namespace {

// The retry_after of a denial if no counter determines it. By then the store may answer again.
constexpr Duration kOutageRetry = std::chrono::seconds(1);

bool Writes(Mode mode) { return mode == Mode::kCharge || mode == Mode::kRefund; }

}  // namespace

// If the caller does not obey the decisions of charges, charges and refunds cannot admit too much.
// So they go to the store even in a grace period.
bool FailurePolicy::AvoidsStore(std::span<const LimitAnswer> limits, bool charge_decides) const {
  if (Writes(check_.demand.mode) && !charge_decides) return false;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (limits[i].rule->rule.on_store_failure != OnStoreFailure::kLocal) continue;
    if (!limiter_.fallback().InGracePeriod(check_.counters[i].key)) continue;
    check_.Fail(StoreFailure::kUnreachable);
    return true;
  }
  return false;
}

void FailurePolicy::Apply(CheckAnswer& answer) {
  answer_ = &answer;
  error_ = denied_ = false;
  added_charges_.clear();
  bool any_local = false;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const CounterCheck& counter = check_.counters[i];
    LimitAnswer& limit = answer.limits[i];
    if (counter.failure) {
      FollowPolicy(limit, *counter.failure);
      any_local |= limit.state_known;
    } else {
      limit.verdict = counter.verdict;
      answer.decided_at = check_.decided_at;
    }
  }
  if (any_local) DecideLocally();
  CountLostWrite();
  denied_ = answer.AnyLimitDenies();
  if (check_.demand.mode == Mode::kConsume && (denied_ || error_)) {
    // The check is not admitted, so what the store granted, or may still grant, is undone.
    limiter_.store().Undo(check_);
  } else {
    RecordCharges();
  }
}

// Sets `state_known` if the local store decides next. Under overload, the policy `local` denies: if
// this server decided as in an outage, it would admit the requests that cause the overload.
void FailurePolicy::FollowPolicy(LimitAnswer& limit, StoreFailure failure) {
  const OnStoreFailure policy = limit.rule->rule.on_store_failure;
  const bool local = policy == OnStoreFailure::kLocal;
  const bool overloaded = local && failure == StoreFailure::kOverloaded;
  limit.source = Source::kFallback;
  limit.state_known = local && !overloaded;
  limit.verdict = {.admitted = policy != OnStoreFailure::kDeny && !overloaded,
                   .retry_after = overloaded ? limiter_.options().store_timeout : kOutageRetry};
  error_ |= policy == OnStoreFailure::kError && !limit.rule->rule.shadow;
}

void FailurePolicy::DecideLocally() {
  demand = check_.demand;
  // If another limit has denied already, nothing is charged.
  const bool denied = demand.mode == Mode::kConsume && answer_->AnyLimitDenies();
  if (error_ || denied) demand.mode = Mode::kPeek;
  lease = check_.lease;
  leases_units = check_.leases_units && demand.mode == Mode::kConsume;
  counters.clear();
  local_.clear();
  local_.reserve(check_.counters.size());  // so that pointers into it remain valid
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const CounterCheck& counter = check_.counters[i];
    if (!counter.failure || !answer_->limits[i].state_known) continue;
    const auto& local =
        local_.emplace_back(limiter_.fallback().Localize(counter.key, *counter.limit));
    counters.push_back({.key = counter.key,
                        .limit = &local.limit,
                        .group = counter.group,
                        .units = counter.units,
                        .seed = local.seed ? &*local.seed : nullptr});
  }
  limiter_.local_store().Submit(*this);
}

void FailurePolicy::OnDecided() {
  auto decided = counters.begin();
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    LimitAnswer& limit = answer_->limits[i];
    if (!check_.counters[i].failure || !limit.state_known) continue;
    const CounterCheck& counter = *decided++;
    // If the local store has no room for the counter, its state is unknown, and the check is not
    // admitted.
    limit.state_known = !counter.failure;
    if (counter.failure) {
      limit.verdict.admitted = false;
      continue;
    }
    limit.verdict = counter.verdict;
    // The units exceed this server's share, but the store may admit them later.
    if (limit.verdict.retry_after == Verdict::kNever) limit.verdict.retry_after = kOutageRetry;
    answer_->decided_at = decided_at;
  }
}

void FailurePolicy::GiveUp() const {
  if (check_.demand.mode == Mode::kConsume) limiter_.store().Undo(check_);
  if (Writes(check_.demand.mode)) limiter_.metrics().lost_writes.Increment();
}

// Records the units that a policy admitted without the store. The store is charged with them when
// it answers again. If a check may have run in the store, its units are only counted as unknown,
// because they could be charged twice. The units of a lease cannot be charged twice: what the store
// took for the lease is settled with 0.
void FailurePolicy::RecordCharges() {
  const Demand& asked = check_.demand;
  if (asked.mode == Mode::kPeek || asked.mode == Mode::kRefund || error_) return;
  added_charges_.resize(check_.counters.size());
  for (std::size_t i = 0; i < check_.counters.size() && check_.counters[i].group == 0; ++i) {
    const CounterCheck& counter = check_.counters[i];
    const LimitAnswer& limit = answer_->limits[i];
    const bool counts = limit.state_known || asked.mode == Mode::kConsume;
    if (!counter.failure || !counts || !Supports(*counter.limit, Mode::kCharge)) continue;
    const std::int64_t units = counter.units - limit.verdict.dropped;
    if (units == 0) continue;
    if (counter.failure == StoreFailure::kTimeout && !check_.leases_units) {
      limiter_.fallback().RecordUnknown(units);
    } else {
      added_charges_[i] = limiter_.fallback().RecordCharge(counter.key, *counter.limit, units);
    }
  }
}

// Counts a charge or refund if some counter did not get it, or if this is unknown.
void FailurePolicy::CountLostWrite() const {
  if (!Writes(check_.demand.mode)) return;
  bool lost = error_;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const CounterCheck& counter = check_.counters[i];
    const bool kept = answer_->limits[i].state_known && check_.demand.mode == Mode::kCharge;
    const bool unsure = counter.failure == StoreFailure::kTimeout || (counter.failure && !kept);
    lost |= unsure && counter.units > 0;
  }
  if (lost) limiter_.metrics().lost_writes.Increment();
}

}  // namespace sluice
