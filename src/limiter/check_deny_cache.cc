// What a check makes of denials this server remembers, and what it adds to them. Only enforced
// limits are of interest: what they deny, no other rule is charged for.
#include "limiter/check_call.h"
#include "limiter/limiter.h"

namespace sluice {

// The answer then names the limits that are known to deny, and no others.
bool CheckCall::DenyFromCache() {
  if (!limiter_.options_.deny_cache || request.ask_store) return false;
  if (!check_.demand.consumes_or_peeks()) return false;
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
    const bool charges = mode == Mode::kCharge || mode == Mode::kRefund;
    if (charges || counter.group > 0 || counter.verdict.admitted) continue;
    if (!answer().limits[i].rule->rule.deny_cache || !DenyCache::MayLearn(*counter.limit)) continue;
    limiter_.deny_cache_.Learn(counter.key, *counter.limit,
                               {.demand = check_.demand,
                                .verdict = counter.verdict,
                                .decided_at = check_.decided_at,
                                .asked = asked_});
  }
}

}  // namespace sluice
