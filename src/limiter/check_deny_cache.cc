// Answers a check from remembered denials, and remembers new ones. Only enforced limits count: if
// one denies, no other rule is charged.
#include "limiter/check_call.h"
#include "limiter/limiter.h"

namespace sluice {

// The answer then contains only the limits that are known to deny.
bool CheckCall::DenyFromCache() {
  if (!limiter_.options_.deny_cache || request.ask_store) return false;
  const bool charges = check_.demand.mode == Mode::kCharge && request.charge_decides;
  if (!charges && !check_.demand.consumes_or_peeks()) return false;
  if (!MarkKnownDenials()) return false;
  auto& limits = answer().limits;
  if (AnotherLimitNeverAdmits()) {
    for (LimitAnswer& limit : limits) limit.source = Source::kStore;
    answer().decided_at = Time();
    return false;
  }
  std::erase_if(limits, [](const auto& limit) { return limit.source != Source::kDenyCache; });
  rules_->CountVerdicts(limits);
  Answer(Decision::kDenied, Source::kDenyCache);
  return true;
}

// Returns whether there are any.
bool CheckCall::MarkKnownDenials() {
  auto& limits = answer().limits;
  bool any = false;
  for (std::size_t i = 0; i < check_.counters.size() && check_.counters[i].group == 0; ++i) {
    const CounterCheck& counter = check_.counters[i];
    if (!limits[i].rule->rule.deny_cache) continue;
    const auto found =
        limiter_.deny_cache_.Find(counter.key, *counter.limit, check_.demand, asked_);
    if (!found) continue;
    limits[i].source = Source::kDenyCache;
    limits[i].verdict = found->verdict;
    answer().decided_at = found->decided_at;
    any = true;
  }
  return any;
}

// Whether a limit without a known denial can never hold the cost. Then no retry can succeed, but
// the known denials tell of one.
bool CheckCall::AnotherLimitNeverAdmits() const {
  const auto& limits = answer_.value().limits;
  for (std::size_t i = 0; i < check_.counters.size() && check_.counters[i].group == 0; ++i) {
    if (limits[i].source == Source::kDenyCache) continue;
    if (check_.demand.cost > MostAtOnce(*check_.counters[i].limit)) return true;
  }
  return false;
}

void CheckCall::RememberDenials(SteadyTime now) {
  if (!limiter_.options_.deny_cache) return;
  const Mode mode = check_.demand.mode;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const CounterCheck& counter = check_.counters[i];
    // If a refund has failed, it may have run.
    if (mode == Mode::kRefund) limiter_.parts_.fallback.clearings.Note(counter.key, now);
    if (counter.failure || mode == Mode::kRefund || counter.group > 0 || counter.verdict.admitted)
      continue;
    if (!answer().limits[i].rule->rule.deny_cache) continue;
    if (mode == Mode::kCharge) {
      RememberPassed(counter, now);
    } else if (DenyCache::MayLearn(*counter.limit, mode)) {
      limiter_.deny_cache_.Learn(counter.key, *counter.limit,
                                 DenialOf(counter, check_.demand, now));
    }
  }
}

DenyCache::Denial CheckCall::DenialOf(const CounterCheck& counter, const Demand& demand,
                                      SteadyTime now) const {
  return {.demand = demand,
          .verdict = counter.verdict,
          .decided_at = check_.decided_at,
          .asked = asked_,
          .answered = now};
}

// A charge leaves the counter beyond its limit. Until the counter resets, it denies every cost,
// also a smaller one.
void CheckCall::RememberPassed(const CounterCheck& counter, SteadyTime now) {
  if (!request.charge_decides || !DenyCache::MayLearnCharge(*counter.limit)) return;
  DenyCache::Denial denial = DenialOf(counter, {.cost = 1, .mode = Mode::kCharge}, now);
  denial.verdict.retry_after = denial.verdict.reset_after;
  limiter_.deny_cache_.Learn(counter.key, *counter.limit, denial);
}

}  // namespace sluice
