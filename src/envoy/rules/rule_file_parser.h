// Parses a rule file of Envoy's service. Refuses what that service refuses; docs/envoy.md lists
// Sluice's own keys.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "config/diagnostic.h"
#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

// A rule file as a tree of nodes. A resource from a control plane is such a tree, too; its nodes
// have no positions.
struct RuleDocument {
  std::string name;  // for messages
  YamlNode root;
};

// Appends every mistake to `errors`, with the document's name. A tree with mistakes must not be
// used. Returns nullopt if the document is not a map.
std::optional<RuleTree> ParseRuleDocument(const RuleDocument& document, Diagnostics& errors);

}  // namespace sluice::envoy
