// Commands that call the admin API once: `sluice explain`, `reset`, `rules` and `reload`.
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "base/text.h"
#include "tools/admin_call.h"
#include "tools/command.h"
#include "tools/explain_text.h"
#include "tools/request_options.h"

namespace sluice::tools {
namespace {

// sluice explain: the rules that match a request, and the state of their counters.
struct ExplainOptions {
  AdminOptions admin;
  RequestOptions request;
  std::string lease_id;  // instead of `request`
};

Outcome ConcludeExplain(const ExplainOptions& options, const v1::ExplainResponse& answer) {
  const bool unknown = answer.response().unknown_domain();
  const std::string hint = unknown ? DomainHint(options.admin, options.request.domain) : "";
  return {ExplainText(options.request.ToRequest<v1::CheckLimitRequest>(), answer, hint), kExitDone};
}

int Explain(const ExplainOptions& options) {
  if (options.lease_id.empty() && options.request.domain.empty()) {
    return Fail(InvalidArgument("DOMAIN is required, unless there is a --lease"));
  }
  auto request = options.request.ToRequest<v1::ExplainRequest>();
  request.set_lease_id(options.lease_id);
  return CallAdmin<v1::ExplainResponse>(
      options.admin, "/sluice.v1.Admin/Explain", request,
      [&](const auto& answer) { return ConcludeExplain(options, answer); });
}

void DeclareExplain(CLI::App& app, ExplainOptions& options) {
  options.request.AddTo(app);
  options.request.amounts.AddTo(app);
  CLI::Option* const lease = app.add_option("--lease", options.lease_id,
                                            "Explain this lease of units instead of a request");
  app.get_option("DOMAIN")->required(false)->excludes(lease);
  options.admin.AddTo(app);
  app.footer(
      "Takes no units. Exit status: 0 explained, 2 error.\n"
      "Example: sluice explain shop endpoint=/boot/pay user=42");
}

// sluice reset: resets the counters of a request.
struct ResetOptions {
  AdminOptions admin;
  RequestOptions request;
  std::string rule;
};

Outcome ConcludeReset(const v1::ResetLimitResponse& answer) {
  if (answer.keys().empty()) {
    return {"nothing to reset: no rule counts this request; sluice explain says why\n", kExitNone};
  }
  std::string text = "reset:\n";
  for (const std::string& key : answer.keys()) text += fmt::format("  {}\n", PrintableText(key));
  return {text, kExitDone};
}

int Reset(const ResetOptions& options) {
  auto request = options.request.ToRequest<v1::ResetLimitRequest>();
  request.set_rule(options.rule);
  return CallAdmin<v1::ResetLimitResponse>(options.admin, "/sluice.v1.Admin/ResetLimit", request,
                                           ConcludeReset);
}

void DeclareReset(CLI::App& app, ResetOptions& options) {
  options.request.AddTo(app);
  app.add_option("--rule", options.rule, "Only the counters of this rule")->type_name("RULE");
  options.admin.AddTo(app);
  app.footer(
      "Needs every attribute that the rule uses in `match` and `per`.\n"
      "Exit status: 0 reset, 1 no rule counts this request, 2 error.\n"
      "Example: sluice reset shop endpoint=/boot/pay user=42 --rule pay-per-user");
}

// sluice rules: the rules in force as YAML.
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

// sluice reload: makes a server reload its rules.
Outcome ConcludeReload(const v1::ReloadRulesResponse& answer) {
  const std::string in_force =
      fmt::format("{} rules in force since {}", answer.rules(),
                  google::protobuf::util::TimeUtil::ToString(answer.loaded_at()));
  if (answer.unchanged()) return {fmt::format("unchanged: {}\n", in_force), kExitDone};
  if (answer.applied()) return {fmt::format("applied: {}\n", in_force), kExitDone};
  std::string text = fmt::format("refused: {}, as before\n", in_force);
  for (const std::string& error : answer.errors()) text += fmt::format("{}\n", error);
  return {text, kExitMistakes};
}

int Reload(const AdminOptions& options) {
  return CallAdmin<v1::ReloadRulesResponse>(options, "/sluice.v1.Admin/ReloadRules",
                                            v1::ReloadRulesRequest(), ConcludeReload);
}

void DeclareReload(CLI::App& app, AdminOptions& options) {
  options.server.timeout = std::chrono::minutes(1);
  options.AddTo(app);
  app.footer(
      "If any rule has a mistake, all are refused and the previous rules stay in force.\n"
      "Exit status: 0 applied or unchanged, 1 refused, 2 error.");
}

}  // namespace

const Command kExplain = {"explain", "Show the rules that match a request, and their state",
                          Declare<ExplainOptions, DeclareExplain, Explain>};
const Command kReset = {"reset", "Reset the counters of a request",
                        Declare<ResetOptions, DeclareReset, Reset>};
const Command kRules = {"rules", "Show the rules a server has in force",
                        Declare<RulesOptions, DeclareRules, Rules>};
const Command kReload = {"reload", "Make a server reload its rules",
                         Declare<AdminOptions, DeclareReload, Reload>};

}  // namespace sluice::tools
