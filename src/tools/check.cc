// `sluice check`: checks a request against its limits, once or many times.
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "client/client.h"
#include "client/duration.h"
#include "client/message_json.h"
#include "tools/admin_call.h"
#include "tools/answer_text.h"
#include "tools/command.h"
#include "tools/load_report.h"
#include "tools/request_options.h"
#include "tools/server_options.h"

namespace sluice::tools {
namespace {

struct CheckOptions {
  ServerOptions server;
  RequestOptions request;
  std::uint64_t cost = 1;
  v1::Mode mode = v1::MODE_CONSUME;
  std::optional<Duration> wait;
  std::optional<Duration> lease_ttl;
  bool json = false;
  std::uint64_t repeat = 1;
  std::uint32_t concurrency = 0;  // 0: not given
  double rate = 0;
};

v1::CheckLimitRequest MakeRequest(const CheckOptions& options) {
  auto request = options.request.ToRequest<v1::CheckLimitRequest>();
  request.set_cost(options.cost);
  request.set_mode(options.mode);
  if (options.wait) *request.mutable_max_wait() = ToProto(*options.wait);
  if (options.lease_ttl) *request.mutable_lease_ttl() = ToProto(*options.lease_ttl);
  return request;
}

// Whether to sleep for the answer's wait. Peeks, charges, refunds, and checks that take no units do
// not sleep.
bool Sleeps(const CheckOptions& options) {
  const bool takes = options.cost > 0 || !options.request.amounts.amounts.empty();
  return options.wait && options.mode == v1::MODE_CONSUME && takes;
}

int CheckOnce(const CheckOptions& options) {
  const auto connected = Connect(options.server.ToTarget());
  if (!connected) return Fail(connected.error());
  Client& client = **connected;
  const v1::CheckLimitRequest request = MakeRequest(options);
  const auto response = client.Check(request, options.server.timeout);
  const SteadyTime answered = SteadyNow();
  if (!response) {
    return FailCall(client.address(), client.connected(), response.error(), options.json);
  }
  if (Sleeps(options) && response->has_wait()) {
    std::this_thread::sleep_until(answered + ToDuration(response->wait()));
  }
  if (options.json) {
    fmt::print("{}\n", MessageJson(*response));
  } else {
    const DecisionContext context{
        .ruled_by = "",
        .domain_hint = response->unknown_domain()
                           ? DomainHint({.server = options.server}, request.domain())
                           : "",
        .waited = Sleeps(options)};
    fmt::print("{}", AnswerText(request, *response, context));
  }
  if (WasCharged(request, *response)) return kExitAllowed;
  return response->decision() == v1::DECISION_ALLOWED ? kExitAllowed : kExitDenied;
}

Result<load::Plan> MakePlan(const CheckOptions& options) {
  // With a rate, many callers are needed, so that slow answers do not delay later checks.
  const std::uint32_t callers = options.concurrency > 0 ? options.concurrency
                                : options.rate > 0      ? 1000
                                                        : 1;
  constexpr std::uint32_t kCallersPerConnection = 100;
  auto target = options.server.ToTarget();
  if (!target) return target.error();
  load::Plan plan{.target = std::move(*target), .timeout = options.server.timeout};
  plan.request = MakeRequest(options).SerializeAsString();
  plan.rate = options.rate;
  plan.in_flight = callers;
  plan.connections = 1 + (callers - 1) / kCallersPerConnection;
  plan.sleep = Sleeps(options);
  plan.duration = std::chrono::years(10);  // the number of messages ends the run
  plan.messages = options.repeat;
  plan.call_timeout = options.server.timeout;
  return plan;
}

int CheckMany(const CheckOptions& options) {
  const auto plan = MakePlan(options);
  if (!plan) return Fail(plan.error());
  const auto stats = RunLoad(*plan, options.json);
  if (!stats || stats->failed > 0 || !stats->lost.empty()) return kExitError;
  return stats->denied > 0 ? kExitDenied : kExitAllowed;
}

void DeclareRequest(CLI::App& app, CheckOptions& options) {
  options.request.AddTo(app);
  app.add_option("--cost", options.cost, "Units to take; 0 without --amount takes nothing")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 53))
      ->type_name("UNITS")
      ->capture_default_str();
  options.request.amounts.AddTo(app);
  CLI::Option* mode =
      AddWord(app, "--mode",
              "consume, peek (take nothing), charge (take even if denied), refund (give back)",
              options.mode,
              {{"consume", v1::MODE_CONSUME},
               {"peek", v1::MODE_PEEK},
               {"charge", v1::MODE_CHARGE},
               {"refund", v1::MODE_REFUND}})
          ->type_name("MODE");
  app.add_flag_callback(
         "--peek", [&options] { options.mode = v1::MODE_PEEK; }, "Short for --mode peek")
      ->excludes(mode);
  AddDuration(app, "--wait",
              "Accept a wait of up to this long. If the check is allowed, sleep for its wait",
              options.wait);
  AddDuration(app, "--lease-ttl", "Take the units under a lease, for sluice settle",
              options.lease_ttl);
  app.add_flag("--json", options.json, "Print JSON: the API's response, or the summary");
}

void DeclareLoad(CLI::App& app, CheckOptions& options) {
  CLI::Option* repeat =
      app.add_option("--repeat", options.repeat, "Check this many times and print a summary")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 53))
          ->type_name("TIMES")
          ->capture_default_str()
          ->excludes(app.get_option("--lease-ttl"));  // the summary has no ids of leases
  app.add_option("--concurrency", options.concurrency,
                 "Maximum checks in flight or asleep at once (default: 1; with --rate: 1000)")
      ->check(CLI::Range(1, 100'000))
      ->type_name("COUNT")
      ->needs(repeat);
  app.add_option("--rate", options.rate,
                 "Checks per second. Each has a fixed start time, from which its latency is "
                 "measured")
      ->check(NumberWithin(0.001, 1e6))
      ->type_name("RATE")
      ->needs(repeat);
}

int Check(const CheckOptions& options) {
  return options.repeat > 1 ? CheckMany(options) : CheckOnce(options);
}

void DeclareCheck(CLI::App& app, CheckOptions& options) {
  DeclareRequest(app, options);
  DeclareLoad(app, options);
  options.server.AddTo(app);
  app.footer(
      "Exit status: 0 allowed or charged, 1 denied, 2 error. With --repeat: 0 all allowed, 1 any\n"
      "denied, even if it is charged, 2 error.\n"
      "Example: sluice check shop endpoint=/boot/pay user=42 --repeat 1000 --concurrency 16");
}

}  // namespace

const Command kCheck = {"check", "Check a request against its limits, once or many times",
                        Declare<CheckOptions, DeclareCheck, Check>};

}  // namespace sluice::tools
