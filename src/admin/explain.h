// Explains a request: the matching rules, and the state of their counters.
//
// Loop thread only, like checks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limiter/active_rules.h"
#include "limiter/check_answer.h"
#include "limiter/check_call.h"
#include "limiter/check_request.h"

namespace sluice {

struct ExplainedCounter {
  std::string key;     // in the store
  LimitAnswer status;  // for a cost of 1
  Counts counts;       // what the limit counts
  GrantsOut grants{};  // units that servers have taken in advance
};

struct ExplainedRule {
  std::string_view rule;
  std::string_view effect;  // "enforced", "shadow", "blocked", "unlimited" or "skipped"
  std::string reason;       // which override applies, which attribute is missing; may be empty
  std::vector<ExplainedCounter> counters;
};

struct Explanation {
  CheckAnswer answer;                // the answer to a check of cost 1
  std::vector<ExplainedRule> rules;  // the matching rules, in the order of the rule file
};

// One explanation. Derived classes call Start and receive the result in OnExplained. From then on,
// Start may be called again.
class ExplainCall : private CheckCall {
 public:
  explicit ExplainCall(Limiter& limiter) : CheckCall(limiter), limiter_(limiter), peek_(*this) {}

  // Explains `asked` as a peek with a cost of 1, whatever its mode and cost are. In a domain of
  // Envoy's rules, the attribute `descriptor` alone is enough: see envoy/rules/guide.h. The data
  // that `asked` refers to must live until OnExplained, which is called exactly once, possibly
  // before Start returns.
  void Start(const CheckRequest& asked);

 private:
  // Reads the states of counters that the check did not read, and the grants that servers hold.
  struct Peek final : StoreCheck {
    explicit Peek(ExplainCall& owner) : call(owner) {}
    void OnDecided() override { call.OnPeeked(); }

    ExplainCall& call;
    std::vector<ExplainedCounter*> explained;  // one for each of `counters`
  };

  // `explanation` and the data it views are valid until OnExplained returns. Must not block.
  virtual void OnExplained(const Result<Explanation>& explanation) = 0;

  void OnAnswer(const Result<CheckAnswer>& answer) override;
  void AddRule(const RuleMatch& match);
  bool CollectCounters();
  void OnPeeked();
  void Deliver();

  Limiter& limiter_;
  std::string counter_;                       // of Envoy's descriptor; viewed by the request
  std::shared_ptr<const ActiveRules> rules_;  // viewed by explanation_
  MatchResult matched_;
  Result<Explanation> explanation_ = Explanation{};
  Peek peek_;
};

// Says which attributes of the rule's `per` are missing in the request, and which are not IP
// addresses although they must be: 'attribute "user" is missing'. Empty if there are none.
std::string MissingAttributes(const Rule& rule, std::span<const Attribute> attributes);

}  // namespace sluice
