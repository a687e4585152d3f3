#include "limiter/check_call.h"

#include <algorithm>
#include <utility>

#include "limiter/limiter.h"

namespace sluice {
namespace {

// The number of this thread's in-order checks that the store has not decided yet.
thread_local std::int64_t in_order_asked = 0;

}  // namespace

// The steps of one check, in order. The details are in the classes of CheckCall's members.
void CheckCall::Start(SteadyTime received) {
  Reset();
  received_ = received;
  if (auto valid = request.Validate(); !valid) return Refuse(valid.error());
  MatchRules();
  if (const RuleMatch* const match = matched_.DecidingRule()) return DecideByRule(*match);
  rules_->CountWithoutLimits(matched_.rules());
  if (auto collected = matched_.Collect(check_, answer().limits); !collected) {
    return Refuse(collected.error());
  }
  if (check_.counters.empty() && matched_.skipped()) {
    return Refuse(InvalidArgument("mode: no matching limit supports it"));
  }
  if (auto prepared = lease_.Prepare(check_, request, answer().limits); !prepared) {
    return Refuse(prepared.error());
  }
  if (check_.counters.empty()) {
    return Answer(matched_.DecisionWithoutLimits(), matched_.SourceWithoutLimits());
  }
  AskStore();
}

void CheckCall::Reset() {
  if (!answer_) answer_ = CheckAnswer{};
  answer().Clear();
  check_.counters.clear();
  check_.lease.reset();
  check_.leases_units = false;
  check_.concerns_grants = false;
  check_.undo_late = nullptr;
  check_.demand = request.demand;
  if (request.TakesNothing()) check_.demand.mode = Mode::kPeek;
  check_.in_order = request.in_order;
}

void CheckCall::MatchRules() {
  rules_ = request.rules ? std::move(request.rules) : limiter_.RulesForThisThread();
  matched_.Match(*rules_->index, request);
  answer().unknown_domain = !matched_.domain_known();
  matched_.AddMissingAttributes(answer().missing_attributes);
  FindUncountedAmounts();
}

void CheckCall::FindUncountedAmounts() {
  std::vector<std::string_view>& names = answer().uncounted_amounts;
  for (const Amount& amount : request.amounts) {
    if (!rules_->index->IsCounted(request.domain, amount.name)) names.push_back(amount.name);
  }
  if (!names.empty()) rules_->CountUncounted(request.domain, names);
}

void CheckCall::DecideByRule(const RuleMatch& match) {
  const bool allowed = match.outcome == RuleMatch::Outcome::kUnlimited;
  const Decision decision = allowed ? Decision::kAllowed : Decision::kDenied;
  rules_->CountCheck(*match.rule, decision, Source::kRule);
  if (!allowed) {
    answer().limits.push_back({.rule = match.rule,
                               .source = Source::kRule,
                               .state_known = false,
                               .verdict = {.admitted = false, .retry_after = Verdict::kNever}});
  }
  Answer(decision, Source::kRule);
}

void CheckCall::AskStore() {
  // If only shadow rules have counters for this check, the decision is already known. If the
  // decision is a denial, the counters are not charged.
  const bool denied =
      !matched_.has_enforced() && matched_.DecisionWithoutLimits() == Decision::kDenied;
  Mode& mode = check_.demand.mode;
  if (denied && mode == Mode::kConsume) {
    mode = Mode::kPeek;
    check_.leases_units = false;
  }
  asked_ = SteadyNow();
  const bool may_know = limiter_.options().deny_cache && !request.ask_store;
  const bool prefetches = limiter_.options().deny_cache && GrantTable::MayConcern(check_);
  // While an earlier in-order check waits for the store, this check must not be decided here.
  const bool follows = check_.in_order && in_order_asked > 0;
  if (prefetches && may_know && !follows && limiter_.grants().Decides(check_)) {
    return DecideByStore(Source::kGrant);
  }
  if (may_know && limiter_.deny_cache().Denies(Asked(), answer())) {
    CountVerdicts(/*taken=*/false);
    return Answer(Decision::kDenied, Source::kDenyCache);
  }
  if (request.deadline <= asked_) {
    limiter_.metrics().CountFailure(StoreFailure::kCallerTimeout);
    return RefuseLate();
  }
  if (policy_.AvoidsStore(answer().limits, request.charge_decides)) return ApplyPolicy();
  limiter_.SetDeadlines(check_, asked_, request.deadline);
  if (limiter_.falls_back()) limiter_.fallback().NoteAsked(check_);
  if (prefetches) limiter_.grants().Prepare(check_);
  if (check_.in_order) ++in_order_asked;
  limiter_.store().Submit(check_);
}

void CheckCall::OnDecided() {
  const SteadyTime now = SteadyNow();
  if (check_.in_order) --in_order_asked;
  limiter_.metrics().store_duration.Observe(now - asked_);
  if (limiter_.falls_back()) limiter_.fallback().NoteDecided(check_, now);
  limiter_.grants().Learn(check_);
  if (limiter_.options().deny_cache) limiter_.deny_cache().LearnFrom(Asked(), now, answer().limits);
  if (check_.failure()) return OnFailure();
  DecideByStore(Source::kStore);
}

// Decides by the verdicts of the store or of grants.
void CheckCall::DecideByStore(Source source) {
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    answer().limits[i].source = source;
    answer().limits[i].verdict = check_.counters[i].verdict;
  }
  answer().decided_at = check_.decided_at;
  DecideByVerdicts(source);
}

void CheckCall::OnFailure() {
  limiter_.metrics().CountFailure(*check_.failure());
  const bool caller_is_late = std::ranges::any_of(check_.counters, [](const CounterCheck& it) {
    return it.failure == StoreFailure::kCallerTimeout;
  });
  // The embedded store fails only if it has no room. The error tells the operator the bounds.
  if (check_.leases_units && !limiter_.falls_back()) {
    return Refuse(
        {ErrorCode::kResourceExhausted,
         "lease_ttl: the embedded store has no room for the lease; it holds at most 100000 "
         "open leases of units, and max_keys and max_memory bound its counters"});
  }
  caller_is_late ? RefuseLate() : ApplyPolicy();
}

void CheckCall::ApplyPolicy() {
  policy_.Apply(answer());
  if (policy_.requires_error()) {
    return Refuse({ErrorCode::kUnavailable,
                   "the store does not answer, and the rule says on_store_failure: error"});
  }
  DecideByVerdicts(Source::kFallback);
}

void CheckCall::DecideByVerdicts(Source source) {
  Decision decision = answer().AnyLimitDenies() ? Decision::kDenied : Decision::kAllowed;
  if (!matched_.has_enforced()) {
    decision = matched_.DecisionWithoutLimits();
    source = matched_.SourceWithoutLimits();
  }
  const Mode mode = check_.demand.mode;
  const bool consumed = mode == Mode::kConsume && decision == Decision::kAllowed;
  CountVerdicts(/*taken=*/consumed || mode == Mode::kCharge);
  Answer(decision, source);
}

void CheckCall::CountVerdicts(bool taken) {
  rules_->CountVerdicts(answer().limits, taken);
  limiter_.top_keys().Note(check_, answer().limits, taken);
}

void CheckCall::Answer(Decision decision, Source source) {
  CheckAnswer& result = answer();
  result.decision = decision;
  result.source = source;
  if (decision == Decision::kDenied) result.retry_after = result.LongestRetry();
  if (decision == Decision::kAllowed) {
    result.wait = result.LongestWait();
    if (check_.lease) NameLease();
  }
  if (result.decided_at == Time()) result.decided_at = limiter_.fallback().clock.Now();
  if (source == Source::kNoRule) rules_->CountUnmatched(request.domain, decision);
  DeliverAnswer();
}

void CheckCall::NameLease() {
  CheckAnswer& result = answer();
  result.lease = lease_.Name(check_, result.limits, policy_.added_charges(), limiter_.fallback());
  if (result.lease && check_.leases_units) limiter_.metrics().leases_taken.Increment();
}

// Takes the rules out of the call, because a call that waits for its next request must not keep
// replaced rules alive. Does so first, because OnAnswer may start the call again.
void CheckCall::DeliverAnswer() {
  const auto rules = std::move(rules_);
  OnAnswer(answer_);
}

// A caller's deadline that has passed is not a failure of the store, so no policy applies.
void CheckCall::RefuseLate() {
  policy_.GiveUp();
  Refuse({ErrorCode::kDeadlineExceeded, "the deadline passed before the request was decided"});
}

void CheckCall::Refuse(Error error) {
  limiter_.metrics().CountRefused(error.code);
  answer_ = std::move(error);
  DeliverAnswer();
}

std::function<void()> CheckCall::LeaseReturn() const {
  if (!answer_ || !answer_.value().lease) return nullptr;
  return [&limiter = limiter_, id = answer_.value().lease->id] { limiter.GiveLeaseBack(id); };
}

void CheckCall::ObserveDuration() const {
  limiter_.metrics().check_duration.Observe(SteadyNow() - received_);
}

}  // namespace sluice
