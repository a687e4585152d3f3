// Conditions of a rule as YAML: how operators see them, and by what counters of overrides differ.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "match/rule.h"

namespace sluice {

// A string as a YAML scalar, quoted if it could be read as anything else.
std::string YamlScalar(std::string_view text);

// A `match` on one line: "{plan: [gold, platinum]}".
std::string ToYaml(const std::vector<Condition>& match);

}  // namespace sluice
