// Rule files, read whole or not at all: all mistakes of a set are found at once, and a set with any
// is not to be applied. docs/rules.md describes the grammar.
//
// Thread-safe.
#pragma once

#include <span>
#include <string>

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

// Reads every *.yaml and *.yml in `directory`, in the order of their names. Symbolic links are
// followed; hidden files and subdirectories are not looked at. A directory without rule files is no
// error, but one that cannot be read is.
LoadedRules LoadRules(const std::string& directory);

// The same for files already in memory.
LoadedRules ParseRules(std::span<const RuleFile> files);

}  // namespace sluice
