// What a reload changed, by name: for the log, and for people who ask whether their edit is live.
#pragma once

#include <string>
#include <vector>

#include "match/rule_index.h"

namespace sluice {

struct RuleDifference {
  // "shop/pay-per-user", in alphabetical order. "domain shop" where a domain's own settings came,
  // went or changed.
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::vector<std::string> changed;  // a rule that has only moved in its file is not

  bool empty() const { return added.empty() && removed.empty() && changed.empty(); }

  // "2 added (shop/a, shop/b), 1 removed (shop/c)", with the first few names of each; "none
  // changed" if empty.
  std::string ToString() const;
};

// Thread-safe.
RuleDifference Compare(const RuleIndex& before, const RuleIndex& after);

}  // namespace sluice
