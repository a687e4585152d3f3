// A limit as text in lease ids, such as "3,60,1000000,60,0,0": the algorithm's position in
// EveryAlgorithm, then its parameters in the order of Describe, without `prefetch`. If two limits
// of rule files differ in anything but `prefetch`, their texts differ.
//
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/algorithm/limit.h"

namespace sluice {

void AppendLimit(const Limit& limit, std::string& out);

// Empty if `text` stands for no limit that a rule file can contain.
std::optional<Limit> ParseLimitText(std::string_view text);

}  // namespace sluice
