// What a request meets, rule by rule, and how its counters stand: for operators who ask why.
//
// Loop thread only, as checks are.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/check_call.h"
#include "limiter/check_request.h"
#include "limiter/rules_in_force.h"

namespace sluice {

struct ExplainedCounter {
  std::string key;     // in the store
  LimitAnswer status;  // to a cost of 1
};

struct ExplainedRule {
  std::string_view rule;
  std::string_view effect;  // "enforced", "shadow", "blocked", "unlimited" or "skipped"
  std::string reason;       // which override applies, which attribute is missing; may be empty
  std::vector<ExplainedCounter> counters;
};

struct Explanation {
  CheckAnswer answer;                // what a check of cost 1 would be answered
  std::vector<ExplainedRule> rules;  // those whose match holds, in the order of the rule file
};

// One explanation. Derived classes call Start and are answered by OnExplained. May be started again
// from then on.
class ExplainCall : private CheckCall {
 public:
  explicit ExplainCall(Limiter& limiter) : CheckCall(limiter), limiter_(limiter), peek_(*this) {}

  // Explains `asked`, whatever its cost and mode, and takes nothing. What it views must live until
  // OnExplained, which is called exactly once, possibly before Start returns.
  void Start(const CheckRequest& asked);

 private:
  // Asks the store how counters stand that a rule has kept from being asked.
  struct Peek final : StoreCheck {
    explicit Peek(ExplainCall& owner) : call(owner) {}
    void OnDecided() override { call.OnPeeked(); }

    ExplainCall& call;
    std::vector<LimitAnswer*> statuses;  // one for each of `counters`
  };

  // `explanation`, and what it views, is valid until OnExplained returns. Must not block.
  virtual void OnExplained(const Result<Explanation>& explanation) = 0;

  void OnAnswer(const Result<CheckAnswer>& answer) override;
  void AddRule(const RuleMatch& match);
  bool CollectCounters();
  void OnPeeked();
  void Deliver();

  Limiter& limiter_;
  std::shared_ptr<const RulesInForce> rules_;  // what explanation_ views
  MatchResult matched_;
  Result<Explanation> explanation_ = Explanation{};
  Peek peek_;
};

// Which attributes of the rule's `per` the request lacks: 'attribute "user" is missing'. Empty if
// none.
std::string MissingAttributes(const Rule& rule, std::span<const Attribute> attributes);

}  // namespace sluice
