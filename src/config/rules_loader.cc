#include "config/rules_loader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include <fmt/format.h>

#include "base/file.h"
#include "base/hash.h"
#include "config/config_value.h"
#include "config/rule_parser.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDomainNames = "is a name of 1 to 255 bytes";

std::string ParseDomainName(const ConfigValue& value) {
  const auto name = value.Text(kDomainNames);
  if (!name) return "";
  if (name->empty() || name->size() > 255) value.ReportFound(kDomainNames);
  return std::string(*name);
}

// Reads a sequence of files into one set.
class Loader {
 public:
  explicit Loader(Diagnostics errors) { loaded_.errors = std::move(errors); }

  void Read(std::string_view file, std::string_view text) {
    FileReport report{std::string(file), loaded_.errors, &loaded_.warnings};
    Domain domain;
    Lines names;
    const YamlNode root_node{.kind = YamlNode::Kind::kMap};
    const ConfigValue root(root_node, report);
    const ConfigValue rules = root.At("rules", root_node);
    const YamlItemStream stream{"rules", [&](std::size_t index, const YamlNode& item) {
                                  AddRule(rules.At(index, item), names, domain);
                                }};
    const YamlNode document = ReadYaml(file, text, stream, loaded_.errors);
    if (document.kind == YamlNode::Kind::kRefused) return;
    ReadDomain(ConfigValue(document, report), domain);
    loaded_.rules.push_back(std::move(domain));
  }

  LoadedRules Finish() {
    SortByPosition(loaded_.errors);
    SortByPosition(loaded_.warnings);
    return std::move(loaded_);
  }

 private:
  using Lines = std::unordered_map<std::string, int>;

  void AddRule(const ConfigValue& item, Lines& names, Domain& domain) {
    Rule rule = ParseRule(item);
    if (!rule.name.empty()) {
      const YamlNode& name = *item.node().Find("name");
      const auto [known, is_new] = names.try_emplace(rule.name, name.position.line);
      if (!is_new) {
        item.At("name", name)
            .Report(fmt::format(
                "found \"{}\", the name of the rule on line {}; each name is allowed once",
                rule.name, known->second));
      }
    }
    domain.rules.push_back(std::move(rule));
  }

  void ReadDomain(const ConfigValue& document, Domain& domain) {
    const ConfigMap fields(document, {"domain", "unmatched", "colocate", "rules"});
    if (const auto name = fields.Require("domain", kDomainNames)) {
      domain.name = ParseDomainName(*name);
      CheckDomainIsNew(*name, domain.name);
    }
    if (const auto unmatched = fields.Find("unmatched")) {
      domain.unmatched =
          unmatched->OneOf<Unmatched>({{"allow", Unmatched::kAllow}, {"deny", Unmatched::kDeny}});
    }
    if (const auto colocate = fields.Find("colocate")) {
      domain.colocate = ParseAttributeName(*colocate);
    }
    if (const auto rules = fields.Require("rules", "is a list of rules")) {
      rules->Items("is a list of rules");
    }
  }

  void CheckDomainIsNew(const ConfigValue& name, const std::string& domain) {
    const auto [known, is_new] = domains_.try_emplace(domain, name.report().file);
    if (is_new) return;
    name.Report(fmt::format("found \"{}\", which {} has too; allowed is one file per domain",
                            domain, known->second));
  }

  LoadedRules loaded_;
  std::unordered_map<std::string, std::string> domains_;  // domain to file
};

bool IsRuleFile(const fs::directory_entry& entry, const FileChoice& choice) {
  if (!choice.is_rule_file(entry.path().filename().native())) return false;
  std::error_code unreadable;
  const fs::file_status status = entry.status(unreadable);
  return fs::is_regular_file(status) || !fs::exists(status);  // AddFile reports a dangling link
}

void AddFile(const std::string& name, RuleTexts& texts) {
  if (auto text = ReadFileOrErrno(name)) {
    texts.fingerprint +=
        fmt::format("{} {}\n", Sha256Hex128(*text), fs::path(name).filename().string());
    texts.files.push_back({name, std::move(*text)});
  } else {
    texts.errors.push_back({name, {}, "", fmt::format("cannot be read: {}", std::strerror(errno))});
  }
}

}  // namespace

RuleTexts ReadRuleFiles(const std::string& directory, const FileChoice& choice) {
  RuleTexts texts;
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entries(directory, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const bool hidden = entries->path().filename().native().starts_with('.');
    if (hidden || !choice.recursive) entries.disable_recursion_pending();
    if (IsRuleFile(*entries, choice)) names.push_back(entries->path().string());
  }
  if (error) {
    const bool is_folder = error != std::errc::not_a_directory;
    texts.errors.push_back({directory,
                            {},
                            "",
                            is_folder ? "cannot be read: " + error.message()
                                      : "is not a folder; allowed is a folder with rule files"});
    return texts;
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) AddFile(name, texts);
  return texts;
}

RuleTexts ReadRulesAt(const std::string& path, const FileChoice& choice) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return ReadRuleFiles(path, choice);
  RuleTexts texts;
  AddFile(path, texts);
  return texts;
}

LoadedRules ParseRules(RuleTexts texts) {
  Loader loader(std::move(texts.errors));
  for (RuleFile& file : texts.files) {
    loader.Read(file.name, file.text);
    file.text = std::string();
  }
  return loader.Finish();
}

}  // namespace sluice
