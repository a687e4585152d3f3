// Commands that read rule files and need no server. `sluice validate` reports all mistakes in
// rules. `sluice convert` turns Envoy's rules into Sluice's own.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client/message_json.h"
#include "config/rules_loader.h"
#include "envoy/rules/converter.h"
#include "envoy/rules/rules_loader.h"
#include "tools/command.h"

namespace sluice::tools {
namespace {

struct ValidateOptions {
  std::string path;  // of a directory or a file
  bool json = false;
  bool envoy = false;
  bool merge_domains = false;
};

struct Findings {
  Diagnostics errors;
  Diagnostics warnings;
  std::size_t domains = 0;
  std::size_t rules = 0;
  int status = kExitDone;
};

std::size_t CountLimits(const std::vector<envoy::Descriptor>& descriptors) {
  std::size_t count = 0;
  for (const envoy::Descriptor& it : descriptors) {
    count += it.rate_limit.has_value() + CountLimits(it.descriptors);
  }
  return count;
}

Findings ValidateEnvoy(const std::string& path, bool merge_domains) {
  RuleTexts texts = ReadRulesAt(path, envoy::kRuleFiles);
  if (!texts.errors.empty()) return {.errors = std::move(texts.errors), .status = kExitError};
  if (texts.files.empty()) {
    return {.errors = {{path, {}, "", "found no rule files"}}, .status = kExitMistakes};
  }
  envoy::LoadedTrees loaded = envoy::ParseRules(std::move(texts), merge_domains);
  if (!loaded.ok()) return {.errors = std::move(loaded.errors), .status = kExitMistakes};
  Findings findings{.domains = loaded.trees.size()};
  for (const envoy::RuleTree& tree : loaded.trees) findings.rules += CountLimits(tree.descriptors);
  return findings;
}

Findings ValidateOwn(const std::string& path) {
  RuleTexts texts = ReadRulesAt(path);
  if (!texts.errors.empty()) return {.errors = std::move(texts.errors), .status = kExitError};
  if (texts.files.empty()) {
    return {.errors = {{path, {}, "", "found no rule files; allowed are *.yaml and *.yml"}},
            .status = kExitMistakes};
  }
  LoadedRules loaded = ParseRules(std::move(texts));
  if (!loaded.ok()) return {.errors = std::move(loaded.errors), .status = kExitMistakes};
  Findings findings{.warnings = std::move(loaded.warnings), .domains = loaded.rules.size()};
  for (const Domain& domain : loaded.rules) findings.rules += domain.rules.size();
  return findings;
}

std::string Count(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Whether a file was refused for this key. Only rules of the other kind (Envoy's or Sluice's own)
// have the key.
bool HasKeyOfOthers(const Findings& findings, std::string_view key) {
  return std::any_of(findings.errors.begin(), findings.errors.end(), [key](const auto& error) {
    return error.path == key && error.message.starts_with("unknown key");
  });
}

void PrintText(const Findings& findings) {
  std::FILE* const out = findings.status == kExitError ? stderr : stdout;
  for (const Diagnostic& error : findings.errors) fmt::print(out, "{}\n", error.ToString());
  if (findings.status == kExitMistakes) {
    fmt::print("{}\n", Count(findings.errors.size(), "mistake"));
    if (HasKeyOfOthers(findings, "descriptors")) {
      fmt::print(stderr, "These look like Envoy's rules: sluice validate --envoy DIR\n");
    }
    if (HasKeyOfOthers(findings, "rules")) {
      fmt::print(stderr, "These look like Sluice's own rules: sluice validate DIR\n");
    }
  }
  for (const Diagnostic& warning : findings.warnings) {
    fmt::print("warning: {}\n", warning.ToString());
  }
  if (findings.status == kExitDone) {
    const std::size_t warnings = findings.warnings.size();
    fmt::print("valid: {} in {}{}\n", Count(findings.rules, "rule"),
               Count(findings.domains, "domain"),
               warnings == 0 ? "" : ", with " + Count(warnings, "warning"));
  }
}

nlohmann::ordered_json ToJson(const Diagnostics& diagnostics) {
  auto list = nlohmann::ordered_json::array();
  for (const Diagnostic& it : diagnostics) {
    list.push_back({{"file", it.file},
                    {"line", it.position.line},
                    {"column", it.position.column},
                    {"path", it.path},
                    {"message", it.message}});
  }
  return list;
}

void PrintJson(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  fmt::print("{}\n", JsonText(Json{{"valid", findings.status == kExitDone},
                                   {"domains", findings.domains},
                                   {"rules", findings.rules},
                                   {"errors", ToJson(findings.errors)},
                                   {"warnings", ToJson(findings.warnings)}}));
}

int Validate(const ValidateOptions& options) {
  const Findings findings = options.envoy ? ValidateEnvoy(options.path, options.merge_domains)
                                          : ValidateOwn(options.path);
  options.json ? PrintJson(findings) : PrintText(findings);
  return findings.status;
}

void DeclareValidate(CLI::App& app, ValidateOptions& options) {
  app.add_option("PATH", options.path,
                 "Directory of rule files, as for sluiced --rules, or a single file")
      ->required();
  app.add_flag("--json", options.json, "Print JSON");
  CLI::Option* envoy =
      app.add_flag("--envoy", options.envoy,
                   "Read rule files of Envoy's rate limit service, as for sluiced --envoy-rules");
  app.add_flag("--merge-domains", options.merge_domains,
               "With --envoy: several files may be for one domain")
      ->needs(envoy);
  app.footer(
      "Prints every mistake as file:line:column: path: what is wrong. Also prints warnings, for\n"
      "rules that are valid but probably a mistake. Needs no server.\n"
      "Exit status: 0 valid (even with warnings), 1 mistakes, 2 files cannot be read.\n"
      "Example: sluice validate config/rules");
}

struct ConvertOptions {
  std::string directory;
  bool merge_domains = false;
};

// The rule files for all trees, with --- between them.
std::string ConvertAll(const std::vector<envoy::RuleTree>& trees, Diagnostics& errors) {
  std::string text;
  for (const envoy::RuleTree& tree : trees) {
    envoy::ConvertedRules converted = envoy::ConvertToYaml(tree);
    text += (text.empty() ? "" : "---\n") + converted.text;
    std::ranges::move(converted.errors, std::back_inserter(errors));
  }
  return text;
}

int Convert(const ConvertOptions& options) {
  RuleTexts texts = envoy::ReadRuleFiles(options.directory);
  const bool unreadable = !texts.errors.empty();
  envoy::LoadedTrees loaded = envoy::ParseRules(std::move(texts), options.merge_domains);
  Diagnostics& errors = loaded.errors;
  const std::string text = loaded.ok() ? ConvertAll(loaded.trees, errors) : "";
  for (const Diagnostic& error : errors) fmt::print(stderr, "{}\n", error.ToString());
  if (!errors.empty()) return unreadable ? kExitError : kExitMistakes;
  fmt::print("{}", text);
  return kExitDone;
}

void DeclareConvert(CLI::App& app, ConvertOptions& options) {
  app.add_option("DIR", options.directory,
                 "Directory of Envoy's rule files, as for sluiced --envoy-rules")
      ->required();
  app.add_flag("--merge-domains", options.merge_domains, "Several files may be for one domain");
  app.footer(
      "Prints a rule file for each domain, with --- between them. Needs no server.\n"
      "Exit status: 0 done, 1 mistakes, 2 files cannot be read. Unless it is 0, prints no rules.\n"
      "Example: sluice convert config/envoy");
}

}  // namespace

const Command kValidate = {"validate", "Find every mistake in a directory of rules, or in one file",
                           Declare<ValidateOptions, DeclareValidate, Validate>};
const Command kConvert = {"convert", "Turn Envoy's rules into Sluice's own",
                          Declare<ConvertOptions, DeclareConvert, Convert>};

}  // namespace sluice::tools
