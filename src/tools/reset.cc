// `sluice reset`: resets the counters of a request.
#include <string>

#include <fmt/format.h>

#include "tools/admin_call.h"
#include "tools/command.h"
#include "tools/request_options.h"

namespace sluice::tools {
namespace {

struct ResetOptions {
  AdminOptions admin;
  RequestOptions request;
  std::string rule;
};

Outcome ConcludeReset(const v1::ResetLimitResponse& answer) {
  std::string text =
      answer.keys().empty() ? "nothing to reset: no rule counts this request\n" : "reset:\n";
  for (const std::string& key : answer.keys()) text += fmt::format("  {}\n", key);
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
      "Exit status: 0 done, 2 error.\n"
      "Example: sluice reset shop endpoint=/boot/pay user=42 --rule pay-per-user");
}

}  // namespace

const Command kReset = {"reset", "Reset the counters of a request",
                        Declare<ResetOptions, DeclareReset, Reset>};

}  // namespace sluice::tools
