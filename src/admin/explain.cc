#include "admin/explain.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "envoy/rules/guide.h"
#include "limiter/limiter.h"
#include "match/pattern_yaml.h"

namespace sluice {
namespace {

using Outcome = RuleMatch::Outcome;

// The time limit of the peek that reads counters after the check (see OnAnswer).
constexpr std::chrono::seconds kPeekTimeout(1);

std::string_view EffectOf(const RuleMatch& match) {
  if (match.outcome == Outcome::kSkipped) return "skipped";
  if (match.rule->rule.shadow) return "shadow";
  if (match.outcome == Outcome::kBlocked || match.outcome == Outcome::kMissing) return "blocked";
  return match.outcome == Outcome::kUnlimited || match.limits.empty() ? "unlimited" : "enforced";
}

// The reason to add to the effect, if any.
std::string OutcomeReason(const RuleMatch& match, std::span<const Attribute> attributes) {
  const bool shadow = match.rule->rule.shadow;
  switch (match.outcome) {
    case Outcome::kSkipped:
      return MissingAttributes(match.rule->rule, attributes);
    case Outcome::kMissing:
      return MissingAttributes(match.rule->rule, attributes) +
             (shadow ? ", so the rule would deny" : ", and the rule says missing: deny");
    case Outcome::kBlocked:
      return shadow ? "would block" : "";
    case Outcome::kUnlimited:
      return shadow ? "would allow without limit" : "";
    case Outcome::kCount:
      break;
  }
  return match.limits.empty() ? "other rules still apply" : "";
}

std::string ReasonOf(const RuleMatch& match, std::span<const Attribute> attributes) {
  std::string outcome = OutcomeReason(match, attributes);
  if (match.override_index < 0) return outcome;
  const auto index = static_cast<std::size_t>(match.override_index);
  return fmt::format("overrides[{}] applies: {}{}{}", index,
                     ToYaml(match.rule->rule.overrides[index].match), outcome.empty() ? "" : "; ",
                     outcome);
}

ExplainedCounter ToCounter(const RuleMatch& match, const IndexedLimit& limit,
                           const CheckRequest& request, const CheckAnswer& answer) {
  const LimitAnswer unknown{.rule = match.rule,
                            .index = static_cast<std::uint32_t>(&limit - match.limits.data()),
                            .algorithm = AlgorithmOf(limit.limit),
                            .units = request.UnitsOf(limit.counts).value_or(0),
                            .source = Source::kRule,
                            .state_known = false,
                            .verdict = {.admitted = true}};
  const auto known = std::ranges::find_if(answer.limits, [&](const LimitAnswer& other) {
    return other.algorithm && other.rule == unknown.rule && other.index == unknown.index;
  });
  return {.key = match.key_prefix + limit.tag,
          .status = known == answer.limits.end() ? unknown : *known,
          .counts = limit.counts};
}

}  // namespace

void ExplainCall::Start(const CheckRequest& asked) {
  explanation_ = Explanation{};
  request = asked;
  request.cost = 1;
  request.demand = {.mode = Mode::kPeek};
  request.ask_store = true;  // a remembered denial covers only one counter
  if (auto valid = request.Validate(); !valid) return Refuse(valid.error());
  rules_ = limiter_.rules();
  envoy::CompleteDescriptor(*rules_->index, request.domain, request.attributes, counter_);
  rules_->index->Match(request.domain, request.attributes, matched_);
  request.rules = rules_;
  CheckCall::Start();
}

// If the check was decided without the store, no limit was evaluated: a peek then reads the states
// of the counters. A peek also reads the grants that servers hold, because no answer to a check
// contains these grants.
void ExplainCall::OnAnswer(const Result<CheckAnswer>& answer) {
  if (!answer) {
    explanation_ = answer.error();
    return Deliver();
  }
  explanation_.value().answer = *answer;
  for (const RuleMatch& match : matched_.matches()) AddRule(match);
  const bool evaluated = std::ranges::any_of(
      answer->limits, [](const LimitAnswer& it) { return it.algorithm.has_value(); });
  if (!CollectCounters() || (evaluated && !peek_.concerns_grants)) return Deliver();
  peek_.demand = {.mode = Mode::kPeek};
  peek_.deadline = std::min(request.deadline, SteadyNow() + kPeekTimeout);
  peek_.last_deadline = request.deadline;
  limiter_.store().Submit(peek_);
}

void ExplainCall::AddRule(const RuleMatch& match) {
  Explanation& explanation = explanation_.value();
  ExplainedRule& explained = explanation.rules.emplace_back();
  explained.rule = match.rule->rule.name;
  explained.effect = EffectOf(match);
  explained.reason = ReasonOf(match, request.attributes);
  for (const IndexedLimit& limit : match.limits) {
    explained.counters.push_back(ToCounter(match, limit, request, explanation.answer));
  }
}

// Prepares the peek. Returns false if there are no counters.
bool ExplainCall::CollectCounters() {
  peek_.counters.clear();
  peek_.explained.clear();
  peek_.concerns_grants = false;
  auto rule = explanation_.value().rules.begin();
  for (const RuleMatch& match : matched_.matches()) {
    for (ExplainedCounter& counter : rule->counters) {
      const IndexedLimit& limit = match.limits[counter.status.index];
      peek_.counters.push_back({.key = counter.key,
                                .limit = &limit.limit,
                                .units = counter.status.units,
                                .verdict = {}});
      peek_.explained.push_back(&counter);
      peek_.concerns_grants |= GrantLife(limit.limit) > Duration::zero();
    }
    ++rule;
  }
  return !peek_.counters.empty();
}

// The state of counters that failed in the store remains unknown.
void ExplainCall::OnPeeked() {
  for (std::size_t i = 0; i < peek_.explained.size(); ++i) {
    if (peek_.counters[i].failure) continue;
    peek_.explained[i]->grants = std::exchange(peek_.counters[i].grants_out, {});
    LimitAnswer& status = peek_.explained[i]->status;
    if (status.state_known) continue;
    status.source = Source::kStore;
    status.state_known = true;
    status.verdict = peek_.counters[i].verdict;
  }
  Deliver();
}

// The call may be started again before OnExplained returns, so the members are moved out first.
void ExplainCall::Deliver() {
  const auto rules = std::move(rules_);
  const auto explanation = std::move(explanation_);
  OnExplained(explanation);
}

std::string MissingAttributes(const Rule& rule, std::span<const Attribute> attributes) {
  std::vector<std::string> missing;
  for (const KeyPart* part : MissingParts(rule, attributes)) {
    const bool is_given =
        std::ranges::find(attributes, part->attribute, &Attribute::name) != attributes.end();
    missing.push_back(fmt::format("attribute \"{}\" is {}", part->attribute,
                                  is_given ? "not an IP address" : "missing"));
  }
  return fmt::to_string(fmt::join(missing, ", "));
}

}  // namespace sluice
