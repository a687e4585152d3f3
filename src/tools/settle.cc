// `sluice settle`: settles a lease of units by the usage that the caller reports.
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "client/client.h"
#include "client/duration.h"
#include "client/message_json.h"
#include "tools/answer_text.h"
#include "tools/command.h"
#include "tools/request_options.h"
#include "tools/server_options.h"

namespace sluice::tools {
namespace {

struct SettleOptions {
  ServerOptions server;
  std::string lease_id;
  AmountOptions amounts;
  std::optional<std::uint64_t> cost;
  v1::HoldOutcome outcome = v1::HOLD_OUTCOME_UNSPECIFIED;
  std::optional<Duration> duration;
  bool json = false;
};

int Settle(const SettleOptions& options) {
  const auto connected = Connect(options.server.ToTarget());
  if (!connected) return Fail(connected.error());
  Client& client = **connected;
  v1::SettleLeaseRequest request;
  request.set_lease_id(options.lease_id);
  options.amounts.AddTo(request);
  if (options.cost) request.set_cost(*options.cost);
  request.set_hold_outcome(options.outcome);
  if (options.duration) *request.mutable_duration() = ToProto(*options.duration);
  const auto response = client.SettleLease(request, options.server.timeout);
  if (!response) {
    return FailCall(client.address(), client.connected(), response.error(), options.json);
  }
  fmt::print("{}", options.json ? MessageJson(*response) + "\n" : SettlementText(*response));
  return response->outcome() == v1::OUTCOME_NOT_FOUND ? kExitNone : kExitDone;
}

void DeclareSettle(CLI::App& app, SettleOptions& options) {
  app.add_option("LEASE", options.lease_id, "The lease's id, as in the answer that granted it")
      ->required();
  app.add_option("--cost", options.cost, "Units used, for limits that count the cost")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 53))
      ->type_name("UNITS");
  options.amounts.AddTo(app);
  AddWord(app, "--outcome", "For limits with adapt: how the work went: ok, overload or ignore",
          options.outcome,
          {{"ok", v1::HOLD_OUTCOME_OK},
           {"overload", v1::HOLD_OUTCOME_OVERLOAD},
           {"ignore", v1::HOLD_OUTCOME_IGNORE}})
      ->type_name("OUTCOME");
  AddDuration(app, "--duration",
              "For limits with adapt: how long the work took, instead of how long "
              "the slots were held",
              options.duration);
  app.add_flag("--json", options.json, "Print JSON: the API's response");
  options.server.AddTo(app);
  app.footer(
      "Amounts that you do not give stay as the lease took them. If a lease is settled twice,\n"
      "only the first settlement counts.\n"
      "Exit status: 0 settled (now or before) or queued; 1 no such lease; 2 error.\n"
      "Example: sluice settle \"$LEASE\" --amount tokens=1312");
}

}  // namespace

const Command kSettle = {"settle", "Settle a lease of units: report what was used",
                         Declare<SettleOptions, DeclareSettle, Settle>};

}  // namespace sluice::tools
