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
  auto& limits = answer().limits;
  std::size_t known = 0;
  for (std::size_t i = 0; i < check_.counters.size() && check_.counters[i].group == 0; ++i) {
    const CounterCheck& counter = check_.counters[i];
    if (!limits[i].rule->rule.deny_cache) continue;
    const auto found =
        limiter_.deny_cache_.Find(counter.key, *counter.limit, check_.demand, asked_);
    if (!found) continue;
    limits[known] = limits[i];
    limits[known].source = Source::kDenyCache;
    limits[known].verdict = found->verdict;
    answer().decided_at = found->decided_at;
    ++known;
  }
  if (known == 0) return false;
  limits.resize(known);
  rules_->CountVerdicts(limits);
  Answer(Decision::kDenied, Source::kDenyCache);
  return true;
}

void CheckCall::RememberDenials() {
  if (!limiter_.options_.deny_cache) return;
  const Mode mode = check_.demand.mode;
  for (std::size_t i = 0; i < check_.counters.size(); ++i) {
    const CounterCheck& counter = check_.counters[i];
    if (counter.failure) continue;
    if (mode == Mode::kRefund) limiter_.deny_cache_.Forget(counter.key);
    if (mode == Mode::kRefund || counter.group > 0 || counter.verdict.admitted) continue;
    if (!answer().limits[i].rule->rule.deny_cache) continue;
    if (mode == Mode::kCharge) {
      RememberPassed(counter);
    } else if (DenyCache::MayLearn(*counter.limit)) {
      limiter_.deny_cache_.Learn(counter.key, *counter.limit, DenialOf(counter, check_.demand));
    }
  }
}

DenyCache::Denial CheckCall::DenialOf(const CounterCheck& counter, const Demand& demand) const {
  return {.demand = demand,
          .verdict = counter.verdict,
          .decided_at = check_.decided_at,
          .asked = asked_};
}

// A charge leaves the counter beyond its limit. Until the counter resets, it denies every cost,
// also a smaller one.
void CheckCall::RememberPassed(const CounterCheck& counter) {
  if (!request.charge_decides || !DenyCache::MayLearnCharge(*counter.limit)) return;
  DenyCache::Denial denial = DenialOf(counter, {.cost = 1, .mode = Mode::kCharge});
  denial.verdict.retry_after = denial.verdict.reset_after;
  limiter_.deny_cache_.Learn(counter.key, *counter.limit, denial);
}

}  // namespace sluice
