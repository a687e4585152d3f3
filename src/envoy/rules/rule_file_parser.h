// Parses a rule file of Envoy's service. Refuses what that service refuses; docs/envoy.md lists
// Sluice's own keys.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "config/diagnostic.h"
#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

// Appends every mistake to `errors`, with `file` as the file's name; the tree is then unusable.
// Returns nullopt after a syntax error.
std::optional<RuleTree> ParseRuleFile(std::string_view file, std::string_view text,
                                      Diagnostics& errors);

}  // namespace sluice::envoy
