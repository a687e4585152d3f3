// The current rules with their metrics. A call keeps the instance with which it started, so no call
// is decided by a mix of old and new rules.
//
// Thread-safe. A rule that remains after a reload keeps its metrics. The metrics of a removed
// rule stay on the metrics page, whose size the registry bounds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "limiter/check_answer.h"
#include "limiter/fallback_watch.h"
#include "match/rule_index.h"
#include "metrics/metrics_registry.h"

namespace sluice {

// What a limit that follows the load has learned from a released hold.
enum class HoldResult : std::uint8_t { kInTime, kTooSlow, kOverload, kIgnored };
inline constexpr std::size_t kHoldResults = 4;

class ActiveRules {
 public:
  // `metrics` must outlive this.
  ActiveRules(std::shared_ptr<const RuleIndex> rule_index, MetricsRegistry& metrics);
  ~ActiveRules();

  const std::shared_ptr<const RuleIndex> index;

  // Counts a check that `rule` decided. Logs a warning if the rule's on_store_failure decides too
  // many of its checks.
  void CountCheck(const IndexedRule& rule, Decision decision, Source source) const;

  // Counts a check that limits decided, once for each rule of these limits. Counts the units that
  // the check took from limits with `counts`. Updates the metrics of limits that follow the load.
  // `taken`: the check was charged to its limits, except to limits of shadow rules that did not
  // admit it.
  void CountVerdicts(std::span<const LimitAnswer> limits, bool taken) const;

  // Counts a released hold of a rule with `adapt`. `moved`: the change of the rule's limit, in
  // slots. The names come from a caller's lease id, so they become labels only if there is such a
  // rule.
  void CountHold(std::string_view domain, std::string_view rule, HoldResult result,
                 std::int64_t moved) const;

  // Counts the matching rules that did not decide and had no limit to evaluate: skipped rules,
  // rules from which an override exempts the check, and shadow rules that would have decided
  // without a limit.
  void CountWithoutLimits(std::span<const RuleMatch> matches) const;

  // Counts a check that no rule decided. The domain comes from the caller, so it becomes a label
  // only if it has rules.
  void CountUnmatched(std::string_view domain, Decision decision) const;

  // Counts a check's `amounts`, which no rule of the check's domain counts. Logs the first of these
  // amounts, in at most one line a second.
  void CountUncounted(std::string_view domain, std::span<const std::string_view> amounts) const;

 private:
  static constexpr std::size_t kDecisions = 2;
  static constexpr std::size_t kSources = 6;

  // The metrics of one rule, or of a domain in which no rule decided. Created on first use, because
  // if there are many rules, most of them never match.
  struct Row {
    explicit Row(std::size_t limits) : units(limits) {}

    std::array<std::atomic<Counter*>, kDecisions * kSources> checks{};
    std::atomic<Counter*> skipped{nullptr};
    std::atomic<Counter*> uncounted{nullptr};
    std::atomic<Gauge*> limit_now{nullptr};  // of a limit that follows the load
    std::atomic<Gauge*> least_limit{nullptr};
    std::atomic<Gauge*> slots_held{nullptr};
    std::array<std::atomic<Counter*>, kHoldResults> holds{};
    std::array<std::atomic<Counter*>, 2> moves{};  // down, up
    std::vector<std::atomic<Counter*>> units;      // by limit
    FallbackWatch fallback;
  };

  // The labels of a metric.
  struct Subject {
    std::string_view domain;
    std::string_view rule;
    bool shadow = false;
  };

  template <typename Metric, typename Labels>
  Metric& MetricIn(std::atomic<Metric*>& slot, std::string_view name, std::string_view help,
                   const Labels& labels) const;
  Row& RowAt(std::size_t row) const;
  std::pair<Row&, std::string_view> RowOfDomain(std::string_view domain) const;
  void Count(Row& row, const Subject& subject, Decision decision, Source source) const;
  void CountUnits(std::span<const LimitAnswer> limits) const;
  void ShowAdapting(const LimitAnswer& limit) const;
  void WatchFallback(const IndexedRule& rule, Row& row) const;

  MetricsRegistry& metrics_;
  std::unordered_map<std::string_view, std::size_t> domains_;  // domains with rules → row
  // Rules with `adapt`, by domain and name.
  std::map<std::pair<std::string_view, std::string_view>, const IndexedRule*> adapting_;
  // The rows of the rules, by id, then the rows of the domains, then one row for all unknown
  // domains. A row is created on first use, and null until then.
  mutable std::vector<std::atomic<Row*>> rows_;
  mutable std::atomic<SteadyTime> next_warning_{SteadyTime::min()};    // of WatchFallback
  mutable std::atomic<SteadyTime> next_uncounted_{SteadyTime::min()};  // of CountUncounted
};

}  // namespace sluice
