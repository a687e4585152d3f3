// A rule as YAML, for operators. The rule parser reads it back as the same rule.
//
// Thread-safe.
#pragma once

#include <string>

#include "match/rule.h"

namespace sluice {

// The keys of one item of `rules`, each on one or more lines. Defaults are left out, except
// `missing` if the rule has `per`.
std::string ToYaml(const Rule& rule);

// The rule as an item of `rules`, without the last line break.
std::string ToYamlItem(const Rule& rule);

// A rule file.
std::string ToYaml(const Domain& domain);

}  // namespace sluice
