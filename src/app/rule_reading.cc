#include "app/rule_reading.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "envoy/rules/compiler.h"

namespace sluice {
namespace {

// A domain has rules of one kind only.
void CheckDomains(const RuleSet& rules, const std::vector<envoy::RuleTree>& trees,
                  Diagnostics& errors) {
  for (const envoy::RuleTree& tree : trees) {
    for (const Domain& domain : rules) {
      if (domain.name != tree.domain) continue;
      errors.push_back({tree.file, tree.domain_position, "domain",
                        fmt::format("found \"{}\", which has rules of Sluice's own; allowed is one "
                                    "kind of rules for a domain",
                                    tree.domain)});
    }
  }
}

}  // namespace

RuleReading IndexRules(RuleTexts texts, const RuleIndex::Options& options, EnvoyTexts envoy) {
  RuleReading reading{.fingerprint = Fingerprint(texts, envoy)};
  LoadedRules own = ParseRules(std::move(texts));
  envoy::LoadedTrees loaded = envoy::ParseRules(std::move(envoy.texts), envoy.merge_domains);
  CheckDomains(own.rules, loaded.trees, loaded.errors);
  for (const Diagnostics& errors : {own.errors, loaded.errors}) {
    for (const Diagnostic& error : errors) reading.mistakes.push_back(error.ToString());
  }
  if (!reading.ok()) return reading;
  envoy::CompiledRules compiled = envoy::Compile(std::move(loaded.trees));
  for (const Domain& domain : own.rules) reading.own_rules += domain.rules.size();
  for (const Domain& domain : compiled.rules) reading.envoy_rules += domain.rules.size();
  std::move(compiled.rules.begin(), compiled.rules.end(), std::back_inserter(own.rules));
  RuleIndex::Options with_guide = options;
  with_guide.guide = std::move(compiled.guide);
  auto index = RuleIndex::Build(std::move(own.rules), with_guide);
  if (index) {
    reading.index = std::move(*index);
  } else {
    reading.mistakes.push_back(index.error().message);
  }
  return reading;
}

std::string Fingerprint(const RuleTexts& texts, const EnvoyTexts& envoy) {
  return texts.fingerprint + "\n" + envoy.texts.fingerprint;
}

RuleReading ReadRules(const Settings& settings) {
  RuleTexts texts;
  EnvoyTexts envoy{.texts = {}, .merge_domains = settings.envoy.merge_domains};
  if (!settings.rules_directory.empty()) texts = ReadRuleFiles(settings.rules_directory);
  if (!settings.envoy.rules_directory.empty()) {
    envoy.texts = envoy::ReadRuleFiles(settings.envoy.rules_directory);
  }
  return IndexRules(std::move(texts), IndexOptions(settings), std::move(envoy));
}

RuleIndex::Options IndexOptions(const Settings& settings) {
  return {.unmatched = settings.unmatched, .guide = nullptr};
}

}  // namespace sluice
