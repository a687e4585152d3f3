// `sluice convert`: rules of Envoy's rate limit service as rules of Sluice's own.
#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "envoy/rules/converter.h"
#include "envoy/rules/rules_loader.h"
#include "tools/command.h"

namespace sluice::tools {
namespace {

int Convert(const std::string& directory) {
  RuleTexts texts = envoy::ReadRuleFiles(directory);
  const bool unreadable = !texts.errors.empty();
  const envoy::LoadedTrees loaded = envoy::ParseRules(std::move(texts), true);
  for (const Diagnostic& error : loaded.errors) fmt::print(stderr, "{}\n", error.ToString());
  if (!loaded.ok()) return unreadable ? kExitError : kExitMistakes;
  bool first = true;
  for (const envoy::RuleTree& tree : loaded.trees) {
    if (!std::exchange(first, false)) fmt::print("---\n");
    fmt::print("{}", envoy::ConvertToYaml(tree));
  }
  return kExitDone;
}

void DeclareConvert(CLI::App& app, std::string& directory) {
  app.add_option("DIR", directory, "Directory of Envoy's rule files, as for sluiced --envoy-rules")
      ->required();
  app.footer(
      "Prints a rule file for each domain, with --- between them. Needs no server.\n"
      "Exit status: 0 done, 1 mistakes, 2 cannot be read.\n"
      "Example: sluice convert config/envoy");
}

}  // namespace

const Command kConvert = {"convert", "Turn Envoy's rules into Sluice's own",
                          Declare<std::string, DeclareConvert, Convert>};

}  // namespace sluice::tools
