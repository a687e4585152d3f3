// Conditions of a rule as YAML: for display, and to distinguish the counters of overrides.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "match/rule.h"

namespace sluice {

// A string as a YAML scalar, quoted if it could be parsed as another type.
std::string YamlScalar(std::string_view text);

// A `match` on one line: "{plan: [gold, platinum]}".
std::string ToYaml(const std::vector<Condition>& match);

}  // namespace sluice
