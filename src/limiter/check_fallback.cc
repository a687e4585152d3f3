// What a check does when the store has failed it: every rule answers by its own on_store_failure.
#include <algorithm>

#include "limiter/check_call.h"
#include "limiter/limiter.h"
#include "store/late_check.h"

namespace sluice {
namespace {

// When to ask again after a denial that no counter explains: by then the store may be back.
constexpr Duration kOutageRetry = std::chrono::seconds(1);

}  // namespace

// Time that the caller did not give is no failure of the store, so no policy decides.
void CheckCall::OnFailure(StoreFailure failure) {
  limiter_.metrics_.CountFailure(failure);
  if (failure != StoreFailure::kCallerTimeout) return FallBack();
  if (check_.late != nullptr) check_.late->undo = true;
  Refuse({ErrorCode::kDeadlineExceeded, "the deadline passed before the request was decided"});
}

void CheckCall::FallBack() {
  falling_back_ = true;
  bool any_local = false;
  bool denied = false;
  for (LimitAnswer& limit : answer().limits) {
    limit.source = Source::kFallback;
    const OnStoreFailure policy = limit.rule->rule.on_store_failure;
    limit.state_known = policy == OnStoreFailure::kLocal;
    limit.verdict = {.admitted = policy != OnStoreFailure::kDeny, .retry_after = kOutageRetry};
    any_local |= limit.state_known;
    denied |= limit.denies();
    fallback_error_ |= policy == OnStoreFailure::kError && !limit.rule->rule.shadow;
  }
  // What another rule has refused already is not charged.
  Mode& mode = check_.demand.mode;
  if (fallback_error_ || (denied && mode == Mode::kConsume)) mode = Mode::kPeek;
  if (any_local) return DecideLocally();
  OnLocallyDecided();
}

// Asks the local store about the counters of those rules that want it.
void CheckCall::DecideLocally() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    if (!answer().limits[i].state_known) continue;
    check_.counters[kept] = check_.counters[i];
    check_.counters[kept++].limit = &indexed_limits_[i]->local;
  }
  check_.counters.resize(kept);
  limiter_.parts_.local.Submit(check_);
}

void CheckCall::OnLocallyDecided() {
  auto counter = check_.counters.begin();
  for (LimitAnswer& limit : answer().limits) {
    if (!limit.state_known) continue;
    // Without room for the counter nothing is known, and what is not known is not admitted.
    if (check_.failure()) {
      limit.state_known = false;
      limit.verdict.admitted = false;
    } else {
      limit.verdict = (counter++)->verdict;
      answer().decided_at = check_.decided_at;
    }
  }
  CountLostWrite();
  if (fallback_error_ && !answer().AnyLimitDenies()) {
    return Refuse({ErrorCode::kUnavailable,
                   "the store does not answer, and the rule says on_store_failure: error"});
  }
  DecideByVerdicts();
}

// A charge or a refund that some rule's counters did not get is lost to them.
void CheckCall::CountLostWrite() const {
  const bool writes = request.demand.mode == Mode::kCharge || request.demand.mode == Mode::kRefund;
  if (!writes || request.demand.cost == 0) return;
  const auto& limits = answer_.value().limits;
  const bool taken = !fallback_error_ && std::all_of(limits.begin(), limits.end(),
                                                     [](const auto& it) { return it.state_known; });
  if (!taken) limiter_.metrics_.lost_writes.Increment();
}

}  // namespace sluice
