// A directory of rule files, read into an index: the step that start and reload have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/rules_loader.h"
#include "config/settings.h"
#include "match/rule_index.h"

namespace sluice {

struct RuleReading {
  std::shared_ptr<const RuleIndex> index;  // null if there are mistakes
  std::vector<std::string> mistakes;       // every one, as file:line:column: path: what is wrong
  std::string fingerprint;                 // of the texts; equal for equal rules

  bool ok() const { return mistakes.empty(); }
};

// Thread-safe, all of them.
RuleReading IndexRules(RuleTexts texts, const RuleIndex::Options& options);

// Without a directory: no rules.
RuleReading ReadRules(const Settings& settings);

RuleIndex::Options IndexOptions(const Settings& settings);

}  // namespace sluice
