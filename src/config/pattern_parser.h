// `match`: a map of attributes to patterns, all of which must hold.
#pragma once

#include <vector>

#include "config/config_value.h"
#include "match/rule.h"

namespace sluice {

// Reports mistakes in `value`; the result is then unusable.
std::vector<Condition> ParseMatch(const ConfigValue& value);

}  // namespace sluice
