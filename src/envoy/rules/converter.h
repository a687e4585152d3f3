// Converts Envoy's rule trees to Sluice's rule files, for callers that move to Sluice's API: an
// entry becomes an attribute, a descriptor becomes a separate check.
//
// Thread-safe.
#pragma once

#include <string>

#include "config/diagnostic.h"
#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

struct ConvertedRules {
  std::string text;    // a rule file; only valid if `errors` is empty
  Diagnostics errors;  // descriptors that no rule can express
};

// Converts a tree to a rule file for its domain. Comments mark parts that have no counterpart, and
// parts for which Sluice has something better.
ConvertedRules ConvertToYaml(const RuleTree& tree);

}  // namespace sluice::envoy
