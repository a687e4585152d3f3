// The rules of one moment, with the counters of what they decided. Calls hold on to the one they
// began with, so a call is never decided by a mix of old and new rules.
//
// Thread-safe. A rule that is there again after a reload goes on with its counters; those of a rule
// that is gone stay on the metrics page, whose size the registry bounds.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limiter/check_answer.h"
#include "match/rule_index.h"
#include "metrics/metrics_registry.h"

namespace sluice {

class RulesInForce {
 public:
  // `metrics` must outlive this.
  RulesInForce(std::shared_ptr<const RuleIndex> rule_index, MetricsRegistry& metrics);
  ~RulesInForce();

  const std::shared_ptr<const RuleIndex> index;

  // Counts a check that `rule` decided.
  void CountCheck(const IndexedRule& rule, Decision decision, Source source) const;

  // Counts a check that limits decided, once for each of their rules.
  void CountVerdicts(std::span<const LimitAnswer> limits) const;

  // Counts those of the matching rules that had no limit to ask and did not decide either: skipped
  // ones, those an override lifts, and those in shadow that would have decided alone.
  void CountWithoutLimits(std::span<const RuleMatch> matches) const;

  // Counts a check that no rule decided. The domain is the caller's word, so it is named only if
  // there are rules for it.
  void CountUnmatched(std::string_view domain, Decision decision) const;

 private:
  static constexpr std::size_t kDecisions = 2;
  static constexpr std::size_t kSources = 5;

  // What is counted of one rule, or of a domain in which no rule decides. Counters are made on
  // first use: of many rules, few are ever met.
  struct Row {
    std::array<std::atomic<Counter*>, kDecisions * kSources> checks{};
    std::atomic<Counter*> skipped{nullptr};
  };

  // What the labels say a count is about.
  struct Subject {
    std::string_view domain;
    std::string_view rule;
    bool shadow = false;
  };

  Row& RowAt(std::size_t row) const;
  void Count(Row& row, const Subject& subject, Decision decision, Source source) const;
  void CountSkipped(const IndexedRule& rule) const;

  MetricsRegistry& metrics_;
  std::unordered_map<std::string_view, std::size_t> domains_;  // those with rules, → row
  // By rule id, then by domain, then one for unknown domains. Rows, too, are made on first use;
  // null until then.
  mutable std::vector<std::atomic<Row*>> rows_;
};

}  // namespace sluice
