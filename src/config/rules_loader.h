// Rule files, read whole or not at all: all mistakes of a set are found at once, and a set with any
// is not to be applied. docs/rules.md describes the grammar.
//
// Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostic.h"
#include "match/rule.h"

namespace sluice {

struct RuleFile {
  std::string name;  // as in messages
  std::string text;
};

struct LoadedRules {
  RuleSet rules;       // only good if there are no errors
  Diagnostics errors;  // by file and position

  bool ok() const { return errors.empty(); }
};

// The files of a directory, read but not looked into.
struct RuleTexts {
  std::vector<RuleFile> files;
  Diagnostics errors;  // what could not be read
  // Equal for equal names and texts, and for practical purposes only for these.
  std::string fingerprint;
};

// Whether a directory's entry of this name is a rule file: *.yaml or *.yml, not hidden.
bool IsRuleFileName(std::string_view name);

// Reads every rule file in `directory`, in the order of their names. Symbolic links are followed,
// subdirectories are not looked at. A directory without rule files is no error, but one that cannot
// be read is.
RuleTexts ReadRuleFiles(const std::string& directory);

// Gives up the memory of each text once it is parsed.
LoadedRules ParseRules(RuleTexts texts);
LoadedRules ParseRules(std::span<const RuleFile> files);

// Both in one.
LoadedRules LoadRules(const std::string& directory);

}  // namespace sluice
