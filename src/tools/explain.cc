// `sluice explain`: shows the rules that match a request, and the state of their counters.
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "tools/admin_call.h"
#include "tools/answer_text.h"
#include "tools/command.h"
#include "tools/request_options.h"

namespace sluice::tools {
namespace {

struct ExplainOptions {
  AdminOptions admin;
  RequestOptions request;
  AmountOptions amounts;
  std::string lease_id;  // instead of `request`
};

// The rule that allows without counting, or an empty string.
std::string AllowedBy(const v1::ExplainResponse& answer) {
  if (answer.response().decision() == v1::DECISION_DENIED) return "";
  for (const v1::ExplainedRule& rule : answer.rules()) {
    if (rule.effect() == "unlimited") return rule.rule() + " (unlimited)";
  }
  return "";
}

std::string RuleText(const v1::ExplainedRule& rule) {
  std::string text = fmt::format("  {}  {}{}{}\n", rule.rule(), rule.effect(),
                                 rule.reason().empty() ? "" : ": ", rule.reason());
  for (const v1::ExplainedCounter& counter : rule.counters()) {
    const std::string counts = CountsText({counter.counts().begin(), counter.counts().end()});
    text += fmt::format("    {}{}  {}\n      {}\n", AlgorithmText(counter.status().algorithm()),
                        counts == "cost" ? "" : fmt::format(" of {}", counts),
                        LimitStateText(counter.status()), counter.key());
  }
  return text;
}

std::string LeaseText(const v1::ExplainedLease& lease) {
  if (!lease.open()) return "The lease holds nothing: it was settled, or ended, or never was\n";
  std::string text = fmt::format("OPEN  ends at {}Z, can be settled for 10 minutes more\n",
                                 google::protobuf::util::TimeUtil::ToString(lease.ends_at()));
  for (const v1::ExplainedCounter& counter : lease.counters()) {
    text += fmt::format("  {} of {}  {}\n    {}\n", HeldText(counter.status()),
                        CountsText({counter.counts().begin(), counter.counts().end()}),
                        LimitStateText(counter.status()), counter.key());
  }
  for (const auto& [name, value] :
       std::map<std::string, std::uint64_t>(lease.amounts().begin(), lease.amounts().end())) {
    text += fmt::format("  taken with {}={}\n", name, value);
  }
  return text;
}

Outcome ConcludeExplain(const ExplainOptions& options, const v1::ExplainResponse& answer) {
  if (answer.has_lease()) return {LeaseText(answer.lease()), kExitDone};
  const std::string& domain = options.request.domain;
  const bool unknown = answer.response().unknown_domain();
  std::string text =
      DecisionText(options.request.ToRequest<v1::CheckLimitRequest>(), answer.response(),
                   {.ruled_by = AllowedBy(answer),
                    .domain_hint = unknown ? DomainHint(options.admin, domain) : ""});
  for (const v1::ExplainedRule& rule : answer.rules()) text += RuleText(rule);
  if (answer.rules().empty()) text += "  sluice rules lists the domains and their rules\n";
  if (answer.has_xds()) text += XdsText(answer.xds(), "  ");
  return {text, kExitDone};
}

std::function<int()> DeclareExplain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  options->request.AddTo(app);
  options->amounts.AddTo(app);
  CLI::Option* const lease =
      app.add_option("--lease", options->lease_id, "Show what this lease of units holds, instead");
  app.get_option("DOMAIN")->required(false)->excludes(lease);
  options->admin.AddTo(app);
  app.footer(
      "Takes nothing. Exit status: 0 explained, 2 error.\n"
      "Example: sluice explain shop endpoint=/boot/pay user=42");
  return [options] {
    if (options->lease_id.empty() && options->request.domain.empty()) {
      return FailBeforeCall(InvalidArgument("DOMAIN is required, unless there is a --lease"));
    }
    auto request = options->request.ToRequest<v1::ExplainRequest>();
    options->amounts.AddTo(request);
    request.set_lease_id(options->lease_id);
    return CallAdmin<v1::ExplainResponse>(
        options->admin, "/sluice.v1.Admin/Explain", request,
        [&](const auto& answer) { return ConcludeExplain(*options, answer); });
  };
}

}  // namespace

const Command kExplain = {"explain", "Show the rules that match a request, and their state",
                          DeclareExplain};

}  // namespace sluice::tools
