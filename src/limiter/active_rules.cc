#include "limiter/active_rules.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kWarningPeriod(1);

// The most limits that the rule has for one request.
std::size_t MostLimits(const Rule& rule) {
  std::size_t most = rule.limits.limits.size();
  for (const Override& other : rule.overrides) most = std::max(most, other.limits.limits.size());
  return most;
}

constexpr std::array<const char*, kHoldResults> kHoldResultNames{"in_time", "too_slow", "overload",
                                                                 "ignored"};

bool Adapts(const Rule& rule) {
  const auto adapts = [](const Limits& limits) {
    return std::ranges::any_of(limits.limits, AdaptationOf, &RuleLimit::limit);
  };
  return adapts(rule.limits) || std::ranges::any_of(rule.overrides, adapts, &Override::limits);
}

MetricLabels LabelsOf(const IndexedRule& rule) {
  return {{"domain", rule.domain}, {"rule", rule.rule.name}};
}

MetricLabels WithLabel(std::string label, std::string value, MetricLabels labels) {
  labels.emplace(std::move(label), std::move(value));
  return labels;
}

}  // namespace

ActiveRules::ActiveRules(std::shared_ptr<const RuleIndex> rule_index, MetricsRegistry& metrics)
    : index(std::move(rule_index)), metrics_(metrics) {
  for (const IndexedRule& rule : index->rules()) {
    domains_.try_emplace(rule.domain, index->size() + domains_.size());
    if (Adapts(rule.rule)) adapting_[{rule.domain, rule.rule.name}] = &rule;
  }
  rows_ = std::vector<std::atomic<Row*>>(index->size() + domains_.size() + 1);
}

ActiveRules::~ActiveRules() {
  for (const std::atomic<Row*>& row : rows_) delete row.load(std::memory_order_relaxed);
}

// The counter or gauge in `slot`, created on first use with the labels that `labels` returns.
template <typename Metric, typename Labels>
Metric& ActiveRules::MetricIn(std::atomic<Metric*>& slot, std::string_view name,
                              std::string_view help, const Labels& labels) const {
  Metric* metric = slot.load(std::memory_order_acquire);
  if (metric == nullptr) {
    if constexpr (std::is_same_v<Metric, Counter>) {
      metric = &metrics_.CounterFor(name, help, labels());
    } else {
      metric = &metrics_.GaugeFor(name, help, labels());
    }
    slot.store(metric, std::memory_order_release);
  }
  return *metric;
}

ActiveRules::Row& ActiveRules::RowAt(std::size_t row) const {
  std::atomic<Row*>& slot = rows_[row];
  Row* made = slot.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  const auto rules = index->rules();
  auto fresh = std::make_unique<Row>(row < rules.size() ? MostLimits(rules[row].rule) : 0);
  if (slot.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) {
    return *fresh.release();
  }
  return *made;  // created by another thread
}

void ActiveRules::CountCheck(const IndexedRule& rule, Decision decision, Source source) const {
  Row& row = RowAt(rule.id);
  Count(row, {rule.domain, rule.rule.name, rule.rule.shadow}, decision, source);
  if (source == Source::kFallback) WatchFallback(rule, row);
}

// Logs at most one line a second for all rules, because many rules can fall back at the same time.
// Until the next line is allowed, the current window (see FallbackWatch) of each rule goes on.
void ActiveRules::WatchFallback(const IndexedRule& rule, Row& row) const {
  const SteadyTime now = SteadyNow();
  SteadyTime next = next_warning_.load(std::memory_order_relaxed);
  if (now < next) return;
  const auto share = row.fallback.Note(now, [&row] {
    FallbackWatch::Decisions decisions;
    for (std::size_t column = 0; column < row.checks.size(); ++column) {
      const Counter* const counter = row.checks[column].load(std::memory_order_acquire);
      if (counter == nullptr) continue;
      const bool by_fallback = column % kSources == static_cast<std::size_t>(Source::kFallback) - 1;
      decisions.all += counter->Value();
      if (by_fallback) decisions.by_fallback += counter->Value();
    }
    return decisions;
  });
  if (!share || !next_warning_.compare_exchange_strong(next, now + kWarningPeriod)) return;
  spdlog::warn(
      "rule {}/{}: its on_store_failure decided {:.1f} % of its checks in the last {} s; "
      "sluice_store_failures_total shows the kind of failure; if it is timeout, unsent or "
      "overloaded, see docs/outages.md, \"A rule that asks for too much\"",
      rule.domain, rule.rule.name, *share * 100, FallbackWatch::kWindow.count());
}

void ActiveRules::CountVerdicts(std::span<const LimitAnswer> limits, bool taken) const {
  while (!limits.empty()) {
    const LimitAnswer& first = limits.front();
    bool admitted = true;
    std::size_t count = 0;
    for (; count < limits.size() && limits[count].rule == first.rule; ++count) {
      admitted &= limits[count].verdict.admitted;
      if (limits[count].lower_bound > 0 && limits[count].state_known) ShowAdapting(limits[count]);
    }
    CountCheck(*first.rule, admitted ? Decision::kAllowed : Decision::kDenied, first.source);
    if (taken && (admitted || !first.rule->rule.shadow)) CountUnits(limits.first(count));
    limits = limits.subspan(count);
  }
}

// `limits` belong to one rule.
void ActiveRules::CountUnits(std::span<const LimitAnswer> limits) const {
  for (const LimitAnswer& limit : limits) {
    const std::int64_t units = limit.units - limit.verdict.dropped;
    if (limit.counts == nullptr || limit.counts->empty() || !limit.state_known || units == 0)
      continue;
    const auto labels = [&] {
      return WithLabel("limit", std::to_string(limit.index), LabelsOf(*limit.rule));
    };
    MetricIn(RowAt(limit.rule->id).units[limit.index], "sluice_units_total",
             "Units taken by limits with counts; refunds are not subtracted.", labels)
        .Increment(static_cast<std::uint64_t>(units));
  }
}

// If the rule has several counters, the metrics show the one that was checked last.
void ActiveRules::ShowAdapting(const LimitAnswer& limit) const {
  Row& row = RowAt(limit.rule->id);
  const auto show = [&](std::atomic<Gauge*>& slot, std::string_view name, std::string_view help,
                        std::int64_t value) {
    MetricIn(slot, name, help, [&] {
      return LabelsOf(*limit.rule);
    }).Set(static_cast<double>(value));
  };
  const Verdict& verdict = limit.verdict;
  show(row.limit_now, "sluice_adaptive_limit",
       "The limit in force of a rule with adapt, at its latest check.", verdict.limit);
  show(row.least_limit, "sluice_adaptive_limit_min",
       "The min of a rule with adapt: the lower bound of its limit.", limit.lower_bound);
  show(row.slots_held, "sluice_adaptive_slots_held",
       "Slots of a rule with adapt that are held after its latest check; at most the limit.",
       verdict.limit - verdict.remaining);
}

// Creates all metrics of the rule's holds at once, because a query that divides by a missing metric
// has no result.
void ActiveRules::CountHold(std::string_view domain, std::string_view rule, HoldResult result,
                            std::int64_t moved) const {
  const auto found = adapting_.find({domain, rule});
  if (found == adapting_.end()) return;
  const IndexedRule& its = *found->second;
  Row& row = RowAt(its.id);
  for (std::size_t i = 0; i < kHoldResults; ++i) {
    MetricIn(row.holds[i], "sluice_adaptive_holds_total",
             "Released holds of a rule with adapt: in_time, too_slow (longer than latency), "
             "overload (as the caller says) or ignored.",
             [&] { return WithLabel("result", kHoldResultNames[i], LabelsOf(its)); })
        .Increment(i == static_cast<std::size_t>(result) ? 1 : 0);
  }
  for (const bool up : {false, true}) {
    const std::int64_t slots = std::max<std::int64_t>(0, up ? moved : -moved);
    MetricIn(row.moves[up ? 1 : 0], "sluice_adaptive_moved_slots_total",
             "Slots by which released holds moved the limit of a rule with adapt.",
             [&] { return WithLabel("direction", up ? "up" : "down", LabelsOf(its)); })
        .Increment(static_cast<std::uint64_t>(slots));
  }
}

void ActiveRules::CountWithoutLimits(std::span<const RuleMatch> matches) const {
  using Outcome = RuleMatch::Outcome;
  for (const RuleMatch& match : matches) {
    if (!match.limits.empty()) continue;
    if (match.outcome == Outcome::kSkipped) {
      MetricIn(RowAt(match.rule->id).skipped, "sluice_rules_skipped_total",
               "Checks that skipped a rule because an attribute of the rule's \"per\" is missing.",
               [&] { return LabelsOf(*match.rule); })
          .Increment();
    } else {
      const bool allows = match.outcome == Outcome::kCount || match.outcome == Outcome::kUnlimited;
      CountCheck(*match.rule, allows ? Decision::kAllowed : Decision::kDenied, Source::kRule);
    }
  }
}

// The name is empty if the domain is not known.
std::pair<ActiveRules::Row&, std::string_view> ActiveRules::RowOfDomain(
    std::string_view domain) const {
  const auto known = domains_.find(domain);
  if (known == domains_.end()) return {RowAt(rows_.size() - 1), {}};
  return {RowAt(known->second), known->first};
}

void ActiveRules::CountUnmatched(std::string_view domain, Decision decision) const {
  const auto [row, name] = RowOfDomain(domain);
  Count(row, {.domain = name}, decision, Source::kNoRule);
}

void ActiveRules::CountUncounted(std::string_view domain,
                                 std::span<const std::string_view> amounts) const {
  const auto [row, name] = RowOfDomain(domain);
  const auto labels = [label = name] { return MetricLabels{{"domain", std::string(label)}}; };
  MetricIn(row.uncounted, "sluice_uncounted_amounts_total",
           "Amounts in checks, if no rule of the domain counts the amount.", labels)
      .Increment(amounts.size());
  const SteadyTime now = SteadyNow();
  SteadyTime next = next_uncounted_.load(std::memory_order_relaxed);
  if (now < next || !next_uncounted_.compare_exchange_strong(next, now + kWarningPeriod)) return;
  spdlog::warn("domain \"{}\": a check has an amount \"{}\", which no rule of the domain counts",
               LogText(domain), LogText(amounts.front()));
}

void ActiveRules::Count(Row& row, const Subject& subject, Decision decision, Source source) const {
  const std::size_t column =
      (static_cast<std::size_t>(decision) - 1) * kSources + (static_cast<std::size_t>(source) - 1);
  const auto labels = [&] {
    // A shadow rule decides nothing, and must not distort sums over decisions.
    std::string decided(subject.shadow ? "shadow_" : "");
    decided += ToString(decision);
    return MetricLabels{{"domain", std::string(subject.domain)},
                        {"rule", std::string(subject.rule)},
                        {"decision", decided},
                        {"source", std::string(ToString(source))}};
  };
  MetricIn(row.checks[column], "sluice_checks_total",
           "Checks, counted once per rule that took part, or once if none did.", labels)
      .Increment();
}

}  // namespace sluice
