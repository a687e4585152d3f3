// `sluice bench`: measures the throughput and the latency of a server.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "load/plan.h"
#include "sluice/v1/rate_limiter.pb.h"
#include "tools/command.h"
#include "tools/load_report.h"
#include "tools/request_options.h"
#include "tools/server_options.h"

namespace sluice::tools {
namespace {

using load::Rpc;

constexpr double kDefaultExponent = 0.99;

struct BenchOptions {
  ServerOptions server;
  RequestOptions request;
  load::Plan plan{.key_name = "user"};
  std::uint32_t checks = 0;  // 0: not given
  bool zipf = false;
  double exponent = 0;  // 0: not given
  bool json = false;
};

std::uint32_t DefaultChecks(Rpc rpc) {
  return rpc == Rpc::kUnary ? 1 : rpc == Rpc::kBatch ? 100 : 16;
}

// Checks flags that depend on each other.
void CheckTogether(const BenchOptions& options) {
  const load::Plan& plan = options.plan;
  if (plan.rpc == Rpc::kUnary && options.checks > 1) {
    throw CLI::ValidationError(
        "--checks", fmt::format("{} with --rpc unary, which allows only 1; batch and stream allow "
                                "1 to 1000",
                                options.checks));
  }
  if (options.exponent > 0 && !options.zipf) {
    throw CLI::ValidationError(
        "--exponent",
        fmt::format("{} with --distribution uniform; only zipf has an exponent", options.exponent));
  }
  if (plan.threads > plan.connections) {
    throw CLI::ValidationError(
        "--threads", fmt::format("{} with --connections {}; each thread needs its own connection",
                                 plan.threads, plan.connections));
  }
  for (const std::string& attribute : options.request.attributes) {
    if (attribute.starts_with(plan.key_name + "=")) {
      throw CLI::ValidationError(
          "--key", fmt::format("{} varies, but is also given as \"{}\"", plan.key_name, attribute));
    }
  }
}

Result<load::Plan> MakePlan(const BenchOptions& options) {
  auto target = options.server.ToTarget();
  if (!target) return target.error();
  load::Plan plan = options.plan;
  plan.target = std::move(*target);
  plan.timeout = options.server.timeout;
  if (plan.rate > 0) plan.in_flight = load::kMaxInFlight;
  plan.checks = options.checks > 0 ? options.checks : DefaultChecks(plan.rpc);
  plan.zipf_exponent = !options.zipf          ? 0
                       : options.exponent > 0 ? options.exponent
                                              : kDefaultExponent;
  auto request = options.request.ToRequest<v1::CheckLimitRequest>();
  plan.request = request.SerializeAsString();
  return plan;
}

int Bench(const BenchOptions& options) {
  const auto plan = MakePlan(options);
  if (!plan) return Fail(plan.error());
  const auto stats = RunLoad(*plan, options.json);
  const bool good = stats && stats->answered() > 0 && stats->failed == 0 && stats->lost.empty();
  return good ? kExitDone : kExitError;
}

void DeclareMessages(CLI::App& app, BenchOptions& options) {
  load::Plan& plan = options.plan;
  AddWord(app, "--rpc", "unary (CheckLimit), batch (CheckLimits), stream (CheckLimitStream)",
          plan.rpc, {{"unary", Rpc::kUnary}, {"batch", Rpc::kBatch}, {"stream", Rpc::kStream}})
      ->type_name("RPC");
  app.add_option("--checks", options.checks,
                 "Checks in one message (default: batch 100, stream 16)")
      ->check(CLI::Range(1, 1000))
      ->type_name("COUNT");
  app.add_option("--key", plan.key_name, "The attribute that varies")
      ->type_name("KEY")
      ->capture_default_str();
  app.add_option("--keys", plan.keys,
                 "How many values the attribute has; the values are 1000000, 1000001, …")
      ->check(CLI::Range(1U, load::kMaxKeys))
      ->type_name("COUNT")
      ->capture_default_str();
  AddWord(app, "--distribution",
          "Distribution of the values: uniform, or zipf (few values are very frequent)",
          options.zipf, {{"uniform", false}, {"zipf", true}})
      ->type_name("WORD");
  app.add_option("--exponent", options.exponent, "For zipf: value i has frequency 1 / i^EXPONENT")
      ->check(NumberWithin(0.01, 10))
      ->type_name("EXPONENT")
      ->default_str(fmt::format("{}", kDefaultExponent));
}

void DeclareLoad(CLI::App& app, BenchOptions& options) {
  load::Plan& plan = options.plan;
  CLI::Option* rate =
      app.add_option("--rate", plan.rate,
                     "Open loop: checks per second. Each message has a fixed start time, from "
                     "which its latency is measured")
          ->check(NumberWithin(0.001, 1e7))
          ->type_name("RATE");
  app.add_option("--in-flight", plan.in_flight,
                 "Closed loop: messages in flight, over all connections")
      ->check(CLI::Range(1U, load::kMaxInFlight))
      ->type_name("COUNT")
      ->capture_default_str()
      ->excludes(rate);
  app.add_option("--connections", plan.connections, "HTTP/2 connections")
      ->check(CLI::Range(1, 1000))
      ->type_name("COUNT")
      ->capture_default_str();
  app.add_option("--threads", plan.threads, "Threads of the load generator")
      ->check(CLI::Range(1, 64))
      ->type_name("COUNT")
      ->capture_default_str();
  AddDuration(app, "--duration", "How long to measure", plan.duration)->default_str("10s");
  AddDuration(app, "--warm-up", "Load before the measurement; it is not measured (default: none)",
              plan.warm_up);
}

void DeclareBench(CLI::App& app, BenchOptions& options) {
  options.request.AddTo(app);
  options.request.amounts.AddTo(app);
  DeclareMessages(app, options);
  DeclareLoad(app, options);
  app.add_flag("--json", options.json, "Print one JSON object");
  options.server.AddTo(app);
  app.get_option("--timeout")
      ->description("Timeout for connecting, and for the last answers after the measurement");
  app.parse_complete_callback([&options] { CheckTogether(options); });
  app.footer(
      "Exit status: 0 if a check was answered, none failed, and the run did not end because all\n"
      "connections were lost; otherwise 2.\n"
      "Example: sluice bench shop endpoint=/boot/pay --keys 100000 --in-flight 400");
}

}  // namespace

const Command kBench = {"bench", "Measure a server under load",
                        Declare<BenchOptions, DeclareBench, Bench>};

}  // namespace sluice::tools
