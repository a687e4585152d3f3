// Names the changes of a reload, for the log.
#pragma once

#include <string>

#include "match/rule_index.h"

namespace sluice {

// "2 added (shop/a, shop/b), 1 removed (shop/c)", with the first few names of each kind in
// alphabetical order; "none changed" if nothing has changed. A rule that has only moved is not a
// change. "domain shop" stands for the settings of the domain "shop". Thread-safe.
std::string DescribeDifference(const RuleIndex& before, const RuleIndex& after);

}  // namespace sluice
