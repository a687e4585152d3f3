// The changes of a reload by name, for the log and for operators.
#pragma once

#include <string>
#include <vector>

#include "match/rule_index.h"

namespace sluice {

struct RuleDifference {
  // "shop/pay-per-user", in alphabetical order. "domain shop" if the settings of a domain were
  // added, removed or changed.
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::vector<std::string> changed;  // a moved rule is not a change

  bool empty() const { return added.empty() && removed.empty() && changed.empty(); }

  // "2 added (shop/a, shop/b), 1 removed (shop/c)", with the first few names of each; "none
  // changed" if empty.
  std::string ToString() const;
};

// Thread-safe.
RuleDifference Compare(const RuleIndex& before, const RuleIndex& after);

}  // namespace sluice
