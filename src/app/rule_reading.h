// Reads a directory of rule files into an index, for startup and reload.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/rules_loader.h"
#include "config/settings.h"
#include "envoy/rules/rules_loader.h"
#include "match/rule_index.h"

namespace sluice {

struct RuleReading {
  std::shared_ptr<const RuleIndex> index;  // null if there are mistakes
  std::vector<std::string> mistakes;       // every one, as file:line:column: path: what is wrong
  std::string fingerprint;                 // of the texts; equal for equal rules
  std::size_t own_rules = 0;               // number in `index` from Sluice's own files
  std::size_t envoy_rules = 0;             // number in `index` from Envoy's files

  bool ok() const { return mistakes.empty(); }
};

// The texts of Envoy's rule files.
struct EnvoyTexts {
  RuleTexts texts;
  bool merge_domains = false;
};

// The functions below are thread-safe.
RuleReading IndexRules(RuleTexts texts, const RuleIndex::Options& options, EnvoyTexts envoy = {});

// The fingerprint of both kinds of texts.
std::string Fingerprint(const RuleTexts& texts, const EnvoyTexts& envoy);

// Reads no rules if both directories are empty.
RuleReading ReadRules(const Settings& settings);

RuleIndex::Options IndexOptions(const Settings& settings);

}  // namespace sluice
