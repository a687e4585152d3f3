// `sluice rules`: shows the rules in force as YAML.
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "tools/admin_call.h"
#include "tools/command.h"

namespace sluice::tools {
namespace {

struct RulesOptions {
  AdminOptions admin;
  std::string domain;
};

std::string RuleText(const v1::RuleInfo& rule) {
  std::string text = fmt::format("  # {}\n", rule.location());
  std::istringstream lines(rule.yaml());
  const char* indent = "  - ";
  for (std::string line; std::getline(lines, line); indent = "    ") text += indent + line + "\n";
  return text;
}

Outcome ConcludeRules(const std::string& domain, const v1::ListRulesResponse& answer) {
  std::string text = answer.has_xds() ? XdsText(answer.xds(), "# ") : "";
  if (answer.rules().empty()) {
    text += domain.empty() ? "no rules are in force\n"
                           : fmt::format("no rules of domain {} are in force\n", domain);
    return {text, kExitNone};
  }
  const std::string* shown = nullptr;  // the domain of the previous rule
  for (const v1::RuleInfo& rule : answer.rules()) {
    if (shown == nullptr || *shown != rule.domain()) {
      text += fmt::format("{}domain: {}\nrules:\n", shown == nullptr ? "" : "---\n", rule.domain());
    }
    shown = &rule.domain();
    text += RuleText(rule);
  }
  return {text, kExitDone};
}

int Rules(const RulesOptions& options) {
  v1::ListRulesRequest request;
  request.set_domain(options.domain);
  return CallAdmin<v1::ListRulesResponse>(
      options.admin, kListRules, request,
      [&](const auto& answer) { return ConcludeRules(options.domain, answer); });
}

void DeclareRules(CLI::App& app, RulesOptions& options) {
  app.add_option("DOMAIN", options.domain, "Only the rules of this domain");
  options.admin.AddTo(app);
  app.footer("Exit status: 0 shown, 1 no rules, 2 error.\nExample: sluice rules shop");
}

}  // namespace

const Command kRules = {"rules", "Show the rules a server has in force",
                        Declare<RulesOptions, DeclareRules, Rules>};

}  // namespace sluice::tools
