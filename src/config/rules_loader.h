// Loads rule files, all or nothing: all mistakes of a set are reported at once, and a set with
// mistakes must not be applied. docs/rules.md describes the grammar.
//
// Thread-safe.
#pragma once

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
  RuleSet rules;         // only valid if `errors` is empty
  Diagnostics errors;    // mistakes, sorted by file and position
  Diagnostics warnings;  // valid, but probably unintended; sorted by file and position

  bool ok() const { return errors.empty(); }
};

// The files of a directory, not parsed yet.
struct RuleTexts {
  std::vector<RuleFile> files;
  Diagnostics errors;  // read errors
  // The file names without the directory, each with a digest of the text. If a name or a text
  // differs, the fingerprint practically always differs.
  std::string fingerprint;
};

// Which entries of a directory are read.
struct FileChoice {
  // Whether a file of this name is read. By default: *.yaml and *.yml, not hidden.
  bool (*is_rule_file)(std::string_view name) = [](std::string_view name) {
    return !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml"));
  };
  bool recursive = false;  // also subdirectories, except hidden ones
};

// Reads every rule file in `directory`, ordered by name. Follows symbolic links to files. A
// directory without rule files is not an error, but an unreadable directory is.
RuleTexts ReadRuleFiles(const std::string& directory, const FileChoice& choice = {});

// Reads the rule files of a directory, or a single file.
RuleTexts ReadRulesAt(const std::string& path, const FileChoice& choice = {});

// Frees the memory of each text after parsing it.
LoadedRules ParseRules(RuleTexts texts);

}  // namespace sluice
