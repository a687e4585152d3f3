// A directory of Envoy's rule files, read whole or not at all: all mistakes of a set are found at
// once, and a set with any is not to be applied.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/rules_loader.h"
#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

struct LoadedTrees {
  std::vector<RuleTree> trees;  // of one domain each; only good if there are no errors
  Diagnostics errors;           // by file and position

  bool ok() const { return errors.empty(); }
};

// Whether a directory's entry of this name is read: all are, but hidden ones.
bool IsRuleFileName(std::string_view name);

// Those, in every directory.
inline constexpr FileChoice kRuleFiles{.is_rule_file = IsRuleFileName, .recursive = true};

// Reads every file of `directory` and of the directories in it, by name. A directory without files
// is no error, but one that cannot be read is.
RuleTexts ReadRuleFiles(const std::string& directory);

// With `merge`, several files may be for one domain: it has the descriptors of all.
LoadedTrees ParseRules(RuleTexts texts, bool merge);

}  // namespace sluice::envoy
