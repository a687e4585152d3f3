#include "limiter/rules_in_force.h"

#include <memory>
#include <string>
#include <utility>

#include "base/log.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kWarningPeriod(1);

std::unordered_map<std::string_view, std::size_t> RowsOfDomains(const RuleIndex& index) {
  std::unordered_map<std::string_view, std::size_t> rows;
  for (const IndexedRule& rule : index.rules()) {
    rows.try_emplace(rule.domain, index.size() + rows.size());
  }
  return rows;
}

}  // namespace

RulesInForce::RulesInForce(std::shared_ptr<const RuleIndex> rule_index, MetricsRegistry& metrics)
    : index(std::move(rule_index)),
      metrics_(metrics),
      domains_(RowsOfDomains(*index)),
      rows_(index->size() + domains_.size() + 1) {}

RulesInForce::~RulesInForce() {
  for (const std::atomic<Row*>& row : rows_) delete row.load(std::memory_order_relaxed);
}

RulesInForce::Row& RulesInForce::RowAt(std::size_t row) const {
  std::atomic<Row*>& slot = rows_[row];
  Row* made = slot.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  auto fresh = std::make_unique<Row>();
  if (slot.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) {
    return *fresh.release();
  }
  return *made;  // created by another thread
}

void RulesInForce::CountCheck(const IndexedRule& rule, Decision decision, Source source) const {
  Row& row = RowAt(rule.id);
  Count(row, {rule.domain, rule.rule.name, rule.rule.shadow}, decision, source);
  if (source == Source::kFallback) WatchFallback(rule, row);
}

// At most one line a second: many rules can fall back at the same time. A rule that has to wait for
// its line is watched on.
void RulesInForce::WatchFallback(const IndexedRule& rule, Row& row) const {
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
      "rule {}/{}: its on_store_failure decided {:.1f} % of its checks in the last {} s, because "
      "the store did not answer in time; docs/outages.md, \"A rule that asks for too much\", says "
      "what "
      "to do",
      rule.domain, rule.rule.name, *share * 100, FallbackWatch::kWindow.count());
}

void RulesInForce::CountVerdicts(std::span<const LimitAnswer> limits) const {
  for (auto limit = limits.begin(); limit != limits.end();) {
    const LimitAnswer& first = *limit;
    bool admitted = true;
    for (; limit != limits.end() && limit->rule == first.rule; ++limit) {
      admitted &= limit->verdict.admitted;
    }
    CountCheck(*first.rule, admitted ? Decision::kAllowed : Decision::kDenied, first.source);
  }
}

void RulesInForce::CountWithoutLimits(std::span<const RuleMatch> matches) const {
  using Outcome = RuleMatch::Outcome;
  for (const RuleMatch& match : matches) {
    if (!match.limits.empty()) continue;
    if (match.outcome == Outcome::kSkipped) {
      CountSkipped(*match.rule);
    } else {
      const bool allows = match.outcome == Outcome::kCount || match.outcome == Outcome::kUnlimited;
      CountCheck(*match.rule, allows ? Decision::kAllowed : Decision::kDenied, Source::kRule);
    }
  }
}

void RulesInForce::CountUnmatched(std::string_view domain, Decision decision) const {
  const auto known = domains_.find(domain);
  Row& row = RowAt(known != domains_.end() ? known->second : rows_.size() - 1);
  const std::string_view name = known != domains_.end() ? known->first : std::string_view();
  Count(row, {.domain = name, .rule = {}}, decision, Source::kNoRule);
}

void RulesInForce::Count(Row& row, const Subject& subject, Decision decision, Source source) const {
  const std::size_t column =
      (static_cast<std::size_t>(decision) - 1) * kSources + (static_cast<std::size_t>(source) - 1);
  std::atomic<Counter*>& slot = row.checks[column];
  Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    // A shadow rule decides nothing, and must not distort sums over decisions.
    std::string decided(subject.shadow ? "shadow_" : "");
    decided += ToString(decision);
    counter = &metrics_.CounterFor(
        "sluice_checks_total", "Checks, counted once per rule that took part, or once if none did.",
        {{"domain", std::string(subject.domain)},
         {"rule", std::string(subject.rule)},
         {"decision", decided},
         {"source", std::string(ToString(source))}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Increment();
}

void RulesInForce::CountSkipped(const IndexedRule& rule) const {
  std::atomic<Counter*>& slot = RowAt(rule.id).skipped;
  Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &metrics_.CounterFor(
        "sluice_rules_skipped_total",
        "Checks that skipped a rule because an attribute of its per is missing.",
        {{"domain", rule.domain}, {"rule", rule.rule.name}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Increment();
}

}  // namespace sluice
