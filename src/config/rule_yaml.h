// A rule as YAML, for operators. The rule parser reads it back into the same rule.
//
// Thread-safe.
#pragma once

#include <string>

#include "match/rule.h"

namespace sluice {

// The keys of one item of `rules`, defaults left out, each on its line or lines.
std::string ToYaml(const Rule& rule);

}  // namespace sluice
