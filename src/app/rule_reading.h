// Reads rule files. Compiles these and the rules of a control plane into an index. Used at startup
// and for reloads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "config/rules_loader.h"
#include "config/settings.h"
#include "envoy/rules/rules_loader.h"
#include "envoy/xds/resource_reader.h"
#include "match/rule_index.h"

namespace sluice {

struct RuleReading {
  std::shared_ptr<const RuleIndex> index;  // null if there are mistakes
  std::vector<std::string> mistakes;       // all of them, as file:line:column: path: what is wrong
  std::string fingerprint;                 // equal for equal files and resources
  std::size_t own_rules = 0;               // number in `index` from Sluice's own files
  std::size_t envoy_rules = 0;             // number in `index` from Envoy's files and resources

  bool ok() const { return mistakes.empty(); }
};

// The directories of rule files, and parameters that do not depend on the files.
struct RuleSources {
  std::string directory;        // of Sluice's own rule files; empty: none
  std::string envoy_directory;  // of Envoy's rule files; empty: none
  bool merge_envoy_domains = false;
  Unmatched unmatched = Unmatched::kAllow;  // for domains that do not set it
};

struct RuleFiles {
  RuleTexts own;
  RuleTexts envoy;
  std::shared_ptr<const envoy::RuleResources> resources;  // from a control plane; null: none yet

  std::string fingerprint() const;
};

// The functions below are thread-safe.
RuleSources SourcesOf(const Settings& settings);
RuleFiles ReadFiles(const RuleSources& sources);
RuleReading IndexRules(RuleFiles files, const RuleSources& sources = {});

}  // namespace sluice
