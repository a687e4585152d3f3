#include "app/rule_reading.h"

#include <utility>

namespace sluice {

RuleReading IndexRules(RuleTexts texts, const RuleIndex::Options& options) {
  RuleReading reading{.fingerprint = std::move(texts.fingerprint)};
  LoadedRules loaded = ParseRules(std::move(texts));
  for (const Diagnostic& error : loaded.errors) reading.mistakes.push_back(error.ToString());
  if (!loaded.ok()) return reading;
  auto index = RuleIndex::Build(std::move(loaded.rules), options);
  if (index) {
    reading.index = std::move(*index);
  } else {
    reading.mistakes.push_back(index.error().message);
  }
  return reading;
}

RuleReading ReadRules(const Settings& settings) {
  RuleTexts texts;
  if (!settings.rules_directory.empty()) texts = ReadRuleFiles(settings.rules_directory);
  return IndexRules(std::move(texts), IndexOptions(settings));
}

RuleIndex::Options IndexOptions(const Settings& settings) {
  return {.unmatched = settings.unmatched};
}

}  // namespace sluice
