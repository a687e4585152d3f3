// YAML of one rule file → a RuleTree. What the peer refuses is refused; docs/envoy.md lists the
// keys that are Sluice's own.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "config/diagnostic.h"
#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

// Appends every mistake to `errors`, with `file` as the file's name; the tree is then of no use.
// Nothing after a syntax error.
std::optional<RuleTree> ParseRuleFile(std::string_view file, std::string_view text,
                                      Diagnostics& errors);

}  // namespace sluice::envoy
