#include "tools/load_report.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client/message_json.h"
#include "load/generator.h"
#include "tools/server_options.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;
using load::LoadStats;
using load::Plan;
using load::Progress;
using load::Rpc;

// The names of v1.Source, by number.
constexpr const char* kSources[] = {"UNSPECIFIED", "STORE",   "DENY_CACHE", "FALLBACK",
                                    "RULE",        "NO_RULE", "GRANT"};
static_assert(std::size(kSources) == std::tuple_size_v<decltype(LoadStats::sources)>);

// A larger share of late messages affects the 99th percentile.
constexpr double kTooManyLate = 0.01;

constexpr std::pair<double, const char*> kQuantiles[] = {
    {0.5, "p50"}, {0.9, "p90"}, {0.99, "p99"}, {0.999, "p99.9"}};

const char* RpcText(Rpc rpc) {
  return rpc == Rpc::kUnary ? "unary" : rpc == Rpc::kBatch ? "batch" : "stream";
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// The CPU usage of the generator's threads, 0 to 1.
double Busy(const Plan& plan, const LoadStats& stats) {
  return stats.elapsed.count() == 0 ? 0 : stats.cpu.count() / Seconds(stats.elapsed) / plan.threads;
}

// "  p50 49 us  p90 89 us  …  max 98 us"
std::string QuantilesText(const load::LatencyHistogram& durations) {
  std::string text;
  for (const auto& [share, name] : kQuantiles) {
    text += fmt::format("  {} {}", name, HumanDuration(durations.Quantile(share)));
  }
  return text + fmt::format("  max {}", HumanDuration(durations.max()));
}

Json QuantilesJson(const load::LatencyHistogram& durations) {
  Json json;
  for (const auto& [share, name] : kQuantiles) json[name] = durations.Quantile(share).count();
  json["max"] = durations.max().count();
  return json;
}

std::string SourcesText(const LoadStats& stats) {
  std::string text;
  for (std::size_t i = 0; i < stats.sources.size(); ++i) {
    if (stats.sources[i] > 0) text += fmt::format("  {} {}", kSources[i], stats.sources[i]);
  }
  return text;
}

Json SourcesJson(const LoadStats& stats) {
  Json json = Json::object();
  for (std::size_t i = 0; i < stats.sources.size(); ++i) {
    if (stats.sources[i] > 0) json[kSources[i]] = stats.sources[i];
  }
  return json;
}

Json ErrorsJson(const LoadStats& stats) {
  Json json = Json::object();
  for (const auto& [code, failures] : stats.errors) {
    json[std::string(CodeName(code))] = {{"count", failures.count}, {"first", failures.first}};
  }
  return json;
}

Json WaitJson(const LoadStats& stats) {
  Json json = {{"count", stats.waits.count()}, {"total", stats.waited.count()}};
  json.update(QuantilesJson(stats.waits));
  return json;
}

std::atomic<bool> interrupted = false;

// Shows the progress on stderr until the run has ended. Ctrl-C ends the run early. On a terminal,
// updates one line; elsewhere, prints a line per second.
void Watch(const load::Plan& plan, load::Generator& generator) {
  std::signal(SIGINT, [](int) { interrupted = true; });
  const bool terminal = isatty(STDERR_FILENO) != 0;
  constexpr auto kTick = std::chrono::milliseconds(100);
  const auto print_every = terminal ? kTick : std::chrono::seconds(1);
  const SteadyTime start = SteadyNow();
  SteadyTime print_at = start + print_every;
  while (!generator.WaitUntil(SteadyNow() + kTick)) {
    if (interrupted) generator.Stop();
    const SteadyTime now = SteadyNow();
    if (now < print_at) continue;
    print_at += print_every;
    const std::string progress =
        ProgressText(plan, generator.progress(), std::chrono::duration_cast<Duration>(now - start));
    // Unlike fmt::print, fputs does not throw if stderr is closed: the load continues.
    std::fputs((terminal ? "\r" + progress + "\x1b[K" : progress + "\n").c_str(), stderr);
  }
  if (terminal) std::fputs("\r\x1b[K", stderr);
}

}  // namespace

std::string ProgressText(const Plan& plan, const Progress& progress, Duration elapsed) {
  const std::uint64_t answered = progress.allowed + progress.denied;
  const std::string how_far =
      plan.messages > 0
          ? fmt::format("{} of {} checks", answered + progress.failed, plan.messages * plan.checks)
          : fmt::format("{:.0f} of {:.0f} s", Seconds(elapsed),
                        Seconds(plan.warm_up + plan.duration));
  return fmt::format("{}: {} allowed, {} denied, {} errors, {:.0f}/s", how_far, progress.allowed,
                     progress.denied, progress.failed,
                     static_cast<double>(answered) / Seconds(elapsed));
}

std::string LoadReportText(const Plan& plan, const LoadStats& stats) {
  std::string text = fmt::format(
      "checks   {} in {} ({:.0f}/s)\n"
      "allowed  {}\n"
      "denied   {}\n"
      "errors   {}\n",
      stats.checks(), HumanDuration(stats.elapsed), stats.checks_per_second(), stats.allowed,
      stats.denied, stats.failed);
  for (const auto& [code, failures] : stats.errors) {
    text += fmt::format("         {} {}, the first: {}\n", failures.count, CodeName(code),
                        failures.first);
  }
  if (stats.answered() > 0) {
    text +=
        fmt::format("sources{}\nlatency{}\n", SourcesText(stats), QuantilesText(stats.latencies));
  }
  if (stats.waits.count() > 0) {
    text += fmt::format("waits    {}, {} in all{}\n", stats.waits.count(),
                        HumanDuration(stats.waited), QuantilesText(stats.waits));
  }
  return text + fmt::format("client   {:.1f} us of CPU a check, {} {:.0f} % busy\n{}",
                            stats.cpu_us_per_check(), plan.threads == 1 ? "its thread" : "threads",
                            100 * Busy(plan, stats), LatenessText(stats));
}

std::string LoadReportJson(const Plan& plan, const LoadStats& stats) {
  const bool open = plan.rate > 0;
  return JsonText(Json{{"rpc", RpcText(plan.rpc)},
                       {"checks_per_message", plan.checks},
                       {"keys", plan.keys},
                       {"distribution", plan.zipf_exponent > 0 ? "zipf" : "uniform"},
                       {"loop", open ? "open" : "closed"},
                       {"in_flight", open ? 0 : plan.in_flight},
                       {"target_rate", plan.rate},
                       {"connections", plan.connections},
                       {"seconds", Seconds(stats.elapsed)},
                       {"checks", stats.checks()},
                       {"allowed", stats.allowed},
                       {"denied", stats.denied},
                       {"failed", stats.failed},
                       {"errors", ErrorsJson(stats)},
                       {"lost", stats.lost},
                       {"sources", SourcesJson(stats)},
                       {"checks_per_second", stats.checks_per_second()},
                       {"latency_us", QuantilesJson(stats.latencies)},
                       {"wait_us", WaitJson(stats)},
                       {"client_cpu_us_per_check", stats.cpu_us_per_check()}});
}

std::string LatenessText(const LoadStats& stats) {
  const double share = stats.messages == 0
                           ? 0
                           : static_cast<double>(stats.late) / static_cast<double>(stats.messages);
  if (share < kTooManyLate) return "";
  return fmt::format(
      "The generator was the bottleneck: it sent {:.0f} % of the messages late, by {} to {}.\n"
      "  The latencies are the generator's. Use a lower --rate, or more --threads.\n",
      100 * share, HumanDuration(LoadStats::kLate), HumanDuration(stats.latest));
}

Result<load::LoadStats> RunLoad(const load::Plan& plan, bool json) {
  const Address& address = plan.target.address;
  const auto started = load::Generator::Start(plan);
  if (!started) {
    const Error& error = started.error();
    FailCall(address, error.code != ErrorCode::kUnavailable, error, json);
    return error;
  }
  Watch(plan, **started);
  load::LoadStats stats = (*started)->stats();
  fmt::print("{}", json ? LoadReportJson(plan, stats) + "\n" : LoadReportText(plan, stats));
  if (json) std::fputs(LatenessText(stats).c_str(), stderr);  // no exception if stderr is closed
  if (!stats.lost.empty()) {
    fmt::print(stderr, "sluice: every connection to {} was lost: {}\n", address.ToString(),
               stats.lost);
  }
  return stats;
}

}  // namespace sluice::tools
