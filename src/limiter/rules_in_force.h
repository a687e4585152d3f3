// The rules of one moment, with the counters of what they decided. Calls hold on to the one they
// began with, so a call is never decided by a mix of old and new rules.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "limiter/check_answer.h"
#include "match/rule_index.h"
#include "metrics/metrics_registry.h"

namespace sluice {

class RulesInForce {
 public:
  // `metrics` must outlive this.
  RulesInForce(std::shared_ptr<const RuleIndex> rule_index, MetricsRegistry& metrics);

  const std::shared_ptr<const RuleIndex> index;

  // Counts a check that `rule` alone decided.
  void CountCheck(const IndexedRule* rule, Decision decision) const {
    Count(rule->id, rule, decision);
  }

  // Counts a check that limits decided, once for each of their rules.
  void CountVerdicts(std::span<const LimitAnswer> limits) const;

  // Counts a check that no rule decided.
  void CountUnmatched(Decision decision) const { Count(index->size(), nullptr, decision); }

 private:
  // By decision. Made on first use: of many rules, few are ever met.
  using ByDecision = std::array<std::atomic<Counter*>, 2>;

  void Count(std::size_t row, const IndexedRule* rule, Decision decision) const;

  MetricsRegistry& metrics_;
  mutable std::vector<ByDecision> checks_;  // by rule id, then one for "no rule"
};

}  // namespace sluice
