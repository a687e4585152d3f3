// Loads a directory of Envoy's rule files, all or nothing: all mistakes of a set are reported at
// once, and a set with mistakes must not be applied.
//
// Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/rules_loader.h"
#include "envoy/rules/rule_file.h"
#include "envoy/rules/rule_file_parser.h"

namespace sluice::envoy {

struct LoadedTrees {
  std::vector<RuleTree> trees;  // one per domain; only valid if `errors` is empty
  Diagnostics errors;           // mistakes, by file and position

  bool ok() const { return errors.empty(); }
};

// All files that are not hidden, also in subdirectories that are not hidden.
inline constexpr FileChoice kRuleFiles{
    .is_rule_file = [](std::string_view name) { return !name.starts_with('.'); },
    .recursive = true};

// Reads the files of kRuleFiles in `directory`, ordered by name. A directory without files is not
// an error, but an unreadable directory is.
RuleTexts ReadRuleFiles(const std::string& directory);

// With `merge`, several files or documents may define one domain. The domain then has the
// descriptors of all of them.
LoadedTrees ParseRules(RuleTexts texts, bool merge, std::span<const RuleDocument> documents = {});

}  // namespace sluice::envoy
