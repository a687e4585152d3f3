#include "limiter/check_call.h"

#include <utility>

#include "limiter/limiter.h"

namespace sluice {

// The steps of one check, in order.
void CheckCall::Start(SteadyTime received) {
  Reset();
  received_ = received;
  if (auto valid = request.Validate(); !valid) return Refuse(valid.error());
  rules_ = request.rules ? std::move(request.rules) : limiter_.RulesForThisThread();
  rules_->index->Match(request.domain, request.attributes, matched_);
  if (!request.limits.empty()) ReplaceLimits();
  answer().unknown_domain = !matched_.domain_known;
  NoteMissingAttributes();
  if (DecideByRules()) return;
  rules_->CountWithoutLimits(matched_.matches());
  CollectCounters();
  if (HasNoLimitForMode()) {
    return Refuse(InvalidArgument("mode: no matching limit supports it"));
  }
  if (auto prepared = PrepareLease(); !prepared) return Refuse(prepared.error());
  if (check_.counters.empty()) return Answer(DecisionWithoutLimits(), SourceWithoutLimits());
  AskStore();
}

void CheckCall::Reset() {
  if (!answer_) answer_ = CheckAnswer{};
  answer().Clear();
  keys_.clear();
  check_.counters.clear();
  check_.lease.reset();
  check_.late = nullptr;
  check_.demand = request.demand;
  if (request.demand.cost == 0) check_.demand.mode = Mode::kPeek;
  check_.in_order = request.in_order;
  has_enforced_ = exempt_ = skipped_ = falling_back_ = fallback_error_ = false;
}

void CheckCall::AskStore() {
  // Shadow rules alone do not change the decision, and are not charged for denied requests.
  const bool denied = !has_enforced_ && DecisionWithoutLimits() == Decision::kDenied;
  Mode& mode = check_.demand.mode;
  if (denied && mode == Mode::kConsume) mode = Mode::kPeek;
  asked_ = SteadyNow();
  if (DenyFromCache()) return;
  if (request.deadline <= asked_) {
    limiter_.metrics_.CountFailure(StoreFailure::kCallerTimeout);
    return RefuseLate();
  }
  if (!limiter_.parts_.fallback.recovery.is_over() && StaysLocal()) return FallBack();
  limiter_.SetDeadlines(check_, asked_, request.deadline);
  if (limiter_.falls_back()) limiter_.parts_.fallback.Expect(check_);
  limiter_.parts_.store.Submit(check_);
}

void CheckCall::OnDecided() {
  const SteadyTime now = SteadyNow();
  limiter_.metrics_.store_duration.Observe(now - asked_);
  if (check_.failure()) return OnFailure(now);
  for (std::size_t i = 0; i < check_.counters.size(); ++i)
    answer().limits[i].verdict = check_.counters[i].verdict;
  answer().decided_at = check_.decided_at;
  LearnStates(now);
  RememberDenials(now);
  DecideByVerdicts();
}

void CheckCall::LearnStates(SteadyTime now) {
  if (!limiter_.falls_back()) return;
  Fallback& fallback = limiter_.parts_.fallback;
  fallback.clock.Learn(check_.decided_at, now);
  if (fallback.recovery.is_over() || HasRecovered()) fallback.Learn(check_);
}

void CheckCall::DecideByVerdicts() {
  rules_->CountVerdicts(answer().limits);
  Decision decision = DecisionWithoutLimits();
  Source source = SourceWithoutLimits();
  if (has_enforced_) {
    decision = answer().AnyLimitDenies() ? Decision::kDenied : Decision::kAllowed;
    source = falling_back_ ? Source::kFallback : Source::kStore;
  }
  const bool consumes = check_.demand.mode == Mode::kConsume;
  if (decision == Decision::kAllowed && consumes && check_.lease) NameLease();
  Answer(decision, source);
}

void CheckCall::Answer(Decision decision, Source source) {
  CheckAnswer& result = answer();
  result.decision = decision;
  result.source = source;
  if (decision == Decision::kDenied) result.retry_after = result.LongestRetry();
  if (decision == Decision::kAllowed) result.wait = result.LongestWait();
  if (result.decided_at == Time()) result.decided_at = limiter_.parts_.fallback.clock.Now();
  if (source == Source::kNoRule) rules_->CountUnmatched(request.domain, decision);
  HandOver();
}

// Releases the rules: a call that waits for its next request must not keep replaced rules alive.
// The call may be started again before OnAnswer returns.
void CheckCall::HandOver() {
  const auto rules = std::move(rules_);
  OnAnswer(answer_);
}

void CheckCall::Refuse(Error error) {
  limiter_.metrics_.CountRefused(error.code);
  answer_ = std::move(error);
  HandOver();
}

void CheckCall::ObserveDuration() const {
  limiter_.metrics_.check_duration.Observe(SteadyNow() - received_);
}

}  // namespace sluice
