// The current rules with their metrics. A call keeps the instance it started with, so it is never
// decided by a mix of old and new rules.
//
// Thread-safe. A rule that remains after a reload keeps its metrics; those of a removed rule stay
// on the metrics page, whose size the registry bounds.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limiter/check_answer.h"
#include "limiter/fallback_watch.h"
#include "match/rule_index.h"
#include "metrics/metrics_registry.h"

namespace sluice {

class RulesInForce {
 public:
  // `metrics` must outlive this.
  RulesInForce(std::shared_ptr<const RuleIndex> rule_index, MetricsRegistry& metrics);
  ~RulesInForce();

  const std::shared_ptr<const RuleIndex> index;

  // Counts a check that `rule` decided. Logs a warning if its on_store_failure decides too many.
  void CountCheck(const IndexedRule& rule, Decision decision, Source source) const;

  // Counts a check that limits decided, once for each of their rules.
  void CountVerdicts(std::span<const LimitAnswer> limits) const;

  // Counts the matching rules that asked no limit and did not decide: skipped rules, rules lifted
  // by an override, and shadow rules that would have decided without a limit.
  void CountWithoutLimits(std::span<const RuleMatch> matches) const;

  // Counts a check that no rule decided. The domain is client input, so it becomes a label only if
  // it has rules.
  void CountUnmatched(std::string_view domain, Decision decision) const;

 private:
  static constexpr std::size_t kDecisions = 2;
  static constexpr std::size_t kSources = 5;

  // The metrics of one rule, or of a domain in which no rule decided. Created on first use, since
  // few of many rules are ever matched.
  struct Row {
    std::array<std::atomic<Counter*>, kDecisions * kSources> checks{};
    std::atomic<Counter*> skipped{nullptr};
    FallbackWatch fallback;
  };

  // The labels of a metric.
  struct Subject {
    std::string_view domain;
    std::string_view rule;
    bool shadow = false;
  };

  Row& RowAt(std::size_t row) const;
  void Count(Row& row, const Subject& subject, Decision decision, Source source) const;
  void CountSkipped(const IndexedRule& rule) const;
  void WatchFallback(const IndexedRule& rule, Row& row) const;

  MetricsRegistry& metrics_;
  std::unordered_map<std::string_view, std::size_t> domains_;  // domains with rules → row
  // By rule id, then by domain, then one for unknown domains. Created on first use; null until
  // then.
  mutable std::vector<std::atomic<Row*>> rows_;
  mutable std::atomic<SteadyTime> next_warning_{SteadyTime::min()};
};

}  // namespace sluice
