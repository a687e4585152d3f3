// Rules as YAML, for people who look into a server: what config/ reads back into the same rule.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "match/rule.h"

namespace sluice {

// The keys of one item of `rules`, defaults left out, each on its line or lines.
std::string ToYaml(const Rule& rule);

// A `match` on one line: "{plan: [gold, platinum]}".
std::string ToYaml(const std::vector<Condition>& match);

}  // namespace sluice
