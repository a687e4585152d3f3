#include "app/rule_reading.h"

#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "envoy/rules/compiler.h"

namespace sluice {
namespace {

// Reports domains that have rules of both kinds, Sluice's own and Envoy's.
void CheckDomains(const RuleSet& rules, const std::vector<envoy::RuleTree>& trees,
                  Diagnostics& errors) {
  for (const envoy::RuleTree& tree : trees) {
    for (const Domain& domain : rules) {
      if (domain.name != tree.domain) continue;
      errors.push_back({tree.file, tree.domain_position, "domain",
                        fmt::format("found \"{}\", which also has rules in Sluice's format; "
                                    "a domain can have rules of only one format",
                                    tree.domain)});
    }
  }
}

}  // namespace

std::string RuleFiles::fingerprint() const {
  return fmt::format("{}\n{}\n{}", own.fingerprint, envoy.fingerprint,
                     resources ? resources->id.fingerprint : "");
}

RuleSources SourcesOf(const Settings& settings) {
  return {.directory = settings.rules_directory,
          .envoy_directory = settings.envoy.rules_directory,
          .merge_envoy_domains = settings.envoy.merge_domains,
          .unmatched = settings.unmatched};
}

RuleFiles ReadFiles(const RuleSources& sources) {
  RuleFiles files;
  if (!sources.directory.empty()) files.own = ReadRuleFiles(sources.directory);
  if (!sources.envoy_directory.empty()) {
    files.envoy = envoy::ReadRuleFiles(sources.envoy_directory);
  }
  return files;
}

RuleReading IndexRules(RuleFiles files, const RuleSources& sources) {
  RuleReading reading{.fingerprint = files.fingerprint()};
  LoadedRules own = ParseRules(std::move(files.own));
  const auto documents = files.resources ? std::span(files.resources->documents)
                                         : std::span<const envoy::RuleDocument>();
  envoy::LoadedTrees loaded =
      envoy::ParseRules(std::move(files.envoy), sources.merge_envoy_domains, documents);
  CheckDomains(own.rules, loaded.trees, loaded.errors);
  for (const Diagnostics& errors : {own.errors, loaded.errors}) {
    for (const Diagnostic& error : errors) reading.mistakes.push_back(error.ToString());
  }
  if (!reading.ok()) return reading;
  envoy::CompiledRules compiled = envoy::Compile(std::move(loaded.trees));
  for (const Domain& domain : own.rules) reading.own_rules += domain.rules.size();
  for (const Domain& domain : compiled.rules) reading.envoy_rules += domain.rules.size();
  std::move(compiled.rules.begin(), compiled.rules.end(), std::back_inserter(own.rules));
  auto index = RuleIndex::Build(
      std::move(own.rules), {.unmatched = sources.unmatched, .guide = std::move(compiled.guide)});
  if (index) {
    reading.index = std::move(*index);
  } else {
    reading.mistakes.push_back(index.error().message);
  }
  return reading;
}

}  // namespace sluice
