// What a request meets, rule by rule, and how its counters stand: for operators who ask why.
//
// Thread-safe.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/check_request.h"

namespace sluice {

class Limiter;

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
  const CheckAnswer& answer;         // what a check of cost 1 would hear
  std::vector<ExplainedRule> rules;  // those whose match holds, in the order of the rule file
};

// Explains `request`, whatever its cost and mode, and takes nothing. `show` is called once, unless
// there is an error, on any thread; what it is shown lives until it returns.
//
// Blocks until the store has answered or failed, so call it on no thread that serves checks.
Result<void> Explain(Limiter& limiter, const CheckRequest& request,
                     const std::function<void(const Explanation&)>& show);

// Which attributes of the rule's `per` the request lacks: 'attribute "user" is missing'. Empty if
// none.
std::string MissingAttributes(const Rule& rule, std::span<const Attribute> attributes);

}  // namespace sluice
