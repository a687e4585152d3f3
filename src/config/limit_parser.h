// The items of `limits`. Each is an algorithm with its parameters, which the algorithm describes
// (core/algorithm/parameters.h).
#pragma once

#include <string_view>
#include <vector>

#include "config/config_value.h"
#include "match/rule.h"

namespace sluice {

// Reports mistakes, such as two limits that would share a counter; the result is then unusable. If
// `list` is not a list, the message ends with `allowed`.
std::vector<RuleLimit> ParseLimitItems(const ConfigValue& list, std::string_view allowed);

}  // namespace sluice
