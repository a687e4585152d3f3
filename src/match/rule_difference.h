// The changes of a reload by name, for the log.
#pragma once

#include <string>

#include "match/rule_index.h"

namespace sluice {

// "2 added (shop/a, shop/b), 1 removed (shop/c)", with the first few names of each kind in
// alphabetical order; "none changed" if nothing has changed. A moved rule is not a change. "domain
// shop" stands for the settings of a domain. Thread-safe.
std::string DescribeDifference(const RuleIndex& before, const RuleIndex& after);

}  // namespace sluice
