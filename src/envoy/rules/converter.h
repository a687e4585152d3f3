// Envoy's rule trees → rule files of Sluice's own, for callers that move to its API: an entry
// becomes an attribute, a descriptor a check of its own.
//
// Thread-safe.
#pragma once

#include <string>

#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

// A rule file of the tree's domain. What the grammar cannot say, or says better, is a comment.
std::string ConvertToYaml(const RuleTree& tree);

}  // namespace sluice::envoy
