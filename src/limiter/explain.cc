#include "limiter/explain.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/ip_address.h"
#include "base/notification.h"
#include "limiter/check_call.h"
#include "limiter/limiter.h"
#include "match/rule_yaml.h"

namespace sluice {
namespace {

using Outcome = RuleMatch::Outcome;

// Asks the store how counters stand; waits for the answer.
class CounterPeek final : public StoreCheck {
 public:
  void RunOn(Store& store, SteadyTime until) {
    demand.mode = Mode::kPeek;
    deadline = until;
    store.Submit(*this);
    decided_.Wait();
  }

 private:
  void OnDecided() override { decided_.Notify(); }

  Notification decided_;
};

std::string_view EffectOf(const RuleMatch& match) {
  if (match.outcome == Outcome::kSkipped) return "skipped";
  if (match.rule->rule.shadow) return "shadow";
  switch (match.outcome) {
    case Outcome::kBlocked:
    case Outcome::kMissing:
      return "blocked";
    case Outcome::kUnlimited:
      return "unlimited";
    case Outcome::kCount:
    case Outcome::kSkipped:
      break;
  }
  return match.limits.empty() ? "unlimited" : "enforced";
}

// What the outcome leaves to say once the effect is known.
std::string OutcomeReason(const RuleMatch& match, std::span<const Attribute> attributes) {
  const bool shadow = match.rule->rule.shadow;
  switch (match.outcome) {
    case Outcome::kSkipped:
      return MissingAttributes(match.rule->rule, attributes);
    case Outcome::kMissing:
      return MissingAttributes(match.rule->rule, attributes) +
             (shadow ? ", which it would deny" : ", and the rule says missing: deny");
    case Outcome::kBlocked:
      return shadow ? "would block" : "";
    case Outcome::kUnlimited:
      return shadow ? "would allow without limit" : "";
    case Outcome::kCount:
      break;
  }
  return match.limits.empty() ? "lifts the limits of this rule alone" : "";
}

std::string ReasonOf(const RuleMatch& match, std::span<const Attribute> attributes) {
  std::string outcome = OutcomeReason(match, attributes);
  if (match.override_index < 0) return outcome;
  const auto index = static_cast<std::size_t>(match.override_index);
  return fmt::format("overrides[{}] applies: {}{}{}", index,
                     ToYaml(match.rule->rule.overrides[index].match), outcome.empty() ? "" : "; ",
                     outcome);
}

class ExplainCall final : public CheckCall {
 public:
  using Show = std::function<void(const Explanation&)>;

  ExplainCall(Limiter& limiter, const Show& show)
      : CheckCall(limiter), limiter_(limiter), show_(show) {}

  Result<void> Run() {
    Start();
    answered_.Wait();
    return result_;
  }

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override {
    if (answer) {
      show_(ToExplanation(*answer));
    } else {
      result_ = answer.error();
    }
    answered_.Notify();
  }

  Explanation ToExplanation(const CheckAnswer& answer) const {
    Explanation explanation{.answer = answer, .rules = {}};
    for (const RuleMatch& match : matches()) {
      ExplainedRule& explained = explanation.rules.emplace_back();
      explained.rule = match.rule->rule.name;
      explained.effect = EffectOf(match);
      explained.reason = ReasonOf(match, request.attributes);
      for (const IndexedLimit& limit : match.limits) {
        explained.counters.push_back(ToCounter(match, limit, answer));
      }
    }
    // Then the check was decided without the store, on the thread that asks: that may wait.
    if (answer.limits.empty()) AskStore(explanation.rules);
    return explanation;
  }

  static ExplainedCounter ToCounter(const RuleMatch& match, const IndexedLimit& limit,
                                    const CheckAnswer& answer) {
    const LimitAnswer unknown{.rule = match.rule,
                              .index = static_cast<std::uint32_t>(&limit - match.limits.data()),
                              .algorithm = AlgorithmOf(limit.limit),
                              .source = Source::kRule,
                              .state_known = false,
                              .verdict = {.admitted = true}};
    const auto known =
        std::find_if(answer.limits.begin(), answer.limits.end(), [&](const LimitAnswer& other) {
          return other.rule == unknown.rule && other.index == unknown.index;
        });
    return {.key = match.key_prefix + limit.tag,
            .status = known == answer.limits.end() ? unknown : *known};
  }

  // How the counters stand that a rule has kept from being asked. Unknown if the store fails.
  void AskStore(std::vector<ExplainedRule>& rules) const {
    CounterPeek peek;
    std::vector<LimitAnswer*> statuses;
    auto rule = rules.begin();
    for (const RuleMatch& match : matches()) {
      for (ExplainedCounter& counter : rule->counters) {
        const IndexedLimit& limit = match.limits[counter.status.index];
        peek.counters.push_back({.key = counter.key, .limit = &limit.limit, .verdict = {}});
        statuses.push_back(&counter.status);
      }
      ++rule;
    }
    if (statuses.empty()) return;
    peek.RunOn(limiter_.store(), std::min(request.deadline, SteadyNow() + std::chrono::seconds(1)));
    if (peek.failure) return;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      statuses[i]->source = Source::kStore;
      statuses[i]->state_known = true;
      statuses[i]->verdict = peek.counters[i].verdict;
    }
  }

  Limiter& limiter_;
  const Show& show_;
  Result<void> result_;
  Notification answered_;
};

}  // namespace

Result<void> Explain(Limiter& limiter, const CheckRequest& request,
                     const std::function<void(const Explanation&)>& show) {
  ExplainCall call(limiter, show);
  call.request = request;
  call.request.demand = {.mode = Mode::kPeek};
  call.request.ask_store = true;  // a remembered denial knows of one counter only
  return call.Run();
}

std::string MissingAttributes(const Rule& rule, std::span<const Attribute> attributes) {
  std::vector<std::string> missing;
  for (const KeyPart& part : rule.per) {
    const auto found =
        std::find_if(attributes.rbegin(), attributes.rend(),
                     [&](const Attribute& given) { return given.name == part.attribute; });
    if (found == attributes.rend()) {
      missing.push_back(fmt::format("attribute \"{}\" is missing", part.attribute));
    } else if ((part.ipv4_prefix || part.ipv6_prefix) && !IpAddress::Parse(found->value)) {
      missing.push_back(fmt::format("attribute \"{}\" is no IP address", part.attribute));
    }
  }
  return fmt::to_string(fmt::join(missing, ", "));
}

}  // namespace sluice
