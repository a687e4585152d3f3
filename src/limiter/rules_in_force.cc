#include "limiter/rules_in_force.h"

#include <utility>

namespace sluice {

RulesInForce::RulesInForce(std::shared_ptr<const RuleIndex> rule_index, MetricsRegistry& metrics)
    : index(std::move(rule_index)), metrics_(metrics), checks_(index->size() + 1) {}

void RulesInForce::CountVerdicts(std::span<const LimitAnswer> limits) const {
  for (auto limit = limits.begin(); limit != limits.end();) {
    const IndexedRule* rule = limit->rule;
    bool admitted = true;
    for (; limit != limits.end() && limit->rule == rule; ++limit) {
      admitted &= limit->verdict.admitted;
    }
    CountCheck(rule, admitted ? Decision::kAllowed : Decision::kDenied);
  }
}

void RulesInForce::Count(std::size_t row, const IndexedRule* rule, Decision decision) const {
  std::atomic<Counter*>& slot = checks_[row][decision == Decision::kAllowed ? 0 : 1];
  Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &metrics_.CounterFor("sluice_checks_total", "Checks by rule and decision.",
                                   {{"domain", rule == nullptr ? "" : rule->domain},
                                    {"rule", rule == nullptr ? "" : rule->rule.name},
                                    {"decision", std::string(ToString(decision))}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Increment();
}

}  // namespace sluice
