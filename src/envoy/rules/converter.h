// Converts Envoy's rule trees to Sluice's rule files, for callers that move to Sluice's API: an
// entry becomes an attribute, a descriptor becomes a separate check.
//
// Thread-safe.
#pragma once

#include <string>

#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

// A rule file for the tree's domain. Comments mark parts that have no counterpart, and
// parts for which Sluice has something better.
std::string ConvertToYaml(const RuleTree& tree);

}  // namespace sluice::envoy
