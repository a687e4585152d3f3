// `sluice explain`: shows the rules that match a request, and the state of their counters.
#include <string>

#include "tools/admin_call.h"
#include "tools/command.h"
#include "tools/explain_text.h"
#include "tools/request_options.h"

namespace sluice::tools {
namespace {

struct ExplainOptions {
  AdminOptions admin;
  RequestOptions request;
  AmountOptions amounts;
  std::string lease_id;  // instead of `request`
};

Outcome ConcludeExplain(const ExplainOptions& options, const v1::ExplainResponse& answer) {
  const bool unknown = answer.response().unknown_domain();
  const std::string hint = unknown ? DomainHint(options.admin, options.request.domain) : "";
  return {ExplainText(options.request.ToRequest<v1::CheckLimitRequest>(), answer, hint), kExitDone};
}

int Explain(const ExplainOptions& options) {
  if (options.lease_id.empty() && options.request.domain.empty()) {
    return FailBeforeCall(InvalidArgument("DOMAIN is required, unless there is a --lease"));
  }
  auto request = options.request.ToRequest<v1::ExplainRequest>();
  options.amounts.AddTo(request);
  request.set_lease_id(options.lease_id);
  return CallAdmin<v1::ExplainResponse>(
      options.admin, "/sluice.v1.Admin/Explain", request,
      [&](const auto& answer) { return ConcludeExplain(options, answer); });
}

void DeclareExplain(CLI::App& app, ExplainOptions& options) {
  options.request.AddTo(app);
  options.amounts.AddTo(app);
  CLI::Option* const lease =
      app.add_option("--lease", options.lease_id, "Show what this lease of units holds, instead");
  app.get_option("DOMAIN")->required(false)->excludes(lease);
  options.admin.AddTo(app);
  app.footer(
      "Takes nothing. Exit status: 0 explained, 2 error.\n"
      "Example: sluice explain shop endpoint=/boot/pay user=42");
}

}  // namespace

const Command kExplain = {"explain", "Show the rules that match a request, and their state",
                          Declare<ExplainOptions, DeclareExplain, Explain>};

}  // namespace sluice::tools
