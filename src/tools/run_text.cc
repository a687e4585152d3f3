#include "tools/run_text.h"

#include <chrono>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/message_json.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;
using load::CodeName;
using load::Plan;
using load::Progress;
using load::Rpc;
using load::Tally;

// The API's sources, by number.
constexpr const char* kSources[] = {"UNSPECIFIED", "STORE", "DENY_CACHE",
                                    "FALLBACK",    "RULE",  "NO_RULE"};
static_assert(std::size(kSources) == std::tuple_size_v<decltype(Tally::sources)>);

// More late messages than this show in the 99th percentile.
constexpr double kTooManyLate = 0.01;

struct Quantile {
  double share;
  const char* name;
};
constexpr Quantile kQuantiles[] = {{0.5, "p50"}, {0.9, "p90"}, {0.99, "p99"}, {0.999, "p99.9"}};

const char* RpcText(Rpc rpc) {
  return rpc == Rpc::kUnary ? "unary" : rpc == Rpc::kBatch ? "batch" : "stream";
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// The share of the time in which the generator's threads were busy.
double Busy(const Plan& plan, const Tally& tally) {
  return tally.elapsed.count() == 0 ? 0 : tally.cpu.count() / Seconds(tally.elapsed) / plan.threads;
}

// "  p50 49 us  p90 89 us  …  max 98 us"
std::string QuantilesText(const load::LatencyHistogram& durations) {
  std::string text;
  for (const auto& [share, name] : kQuantiles) {
    text += fmt::format("  {} {}", name, HumanDuration(durations.Quantile(share)));
  }
  return text + fmt::format("  max {}", HumanDuration(durations.max()));
}

void AddQuantiles(const load::LatencyHistogram& durations, Json& json) {
  for (const auto& [share, name] : kQuantiles) json[name] = durations.Quantile(share).count();
  json["max"] = durations.max().count();
}

std::string SourcesText(const Tally& tally) {
  std::string text;
  for (std::size_t i = 0; i < tally.sources.size(); ++i) {
    if (tally.sources[i] > 0) text += fmt::format("  {} {}", kSources[i], tally.sources[i]);
  }
  return text;
}

Json SourcesJson(const Tally& tally) {
  Json json = Json::object();
  for (std::size_t i = 0; i < tally.sources.size(); ++i) {
    if (tally.sources[i] > 0) json[kSources[i]] = tally.sources[i];
  }
  return json;
}

Json ErrorsJson(const Tally& tally) {
  Json json = Json::object();
  for (const auto& [code, failures] : tally.errors) {
    json[std::string(CodeName(code))] = {{"count", failures.count}, {"first", failures.first}};
  }
  return json;
}

Json LatencyJson(const Tally& tally) {
  Json json;
  AddQuantiles(tally.latencies, json);
  return json;
}

Json WaitJson(const Tally& tally) {
  Json json = {{"count", tally.waits.count()}, {"total", tally.waited.count()}};
  AddQuantiles(tally.waits, json);
  return json;
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

std::string RunText(const Plan& plan, const Tally& tally) {
  std::string text = fmt::format(
      "checks   {} in {} ({:.0f}/s)\n"
      "allowed  {}\n"
      "denied   {}\n"
      "errors   {}\n",
      tally.checks(), HumanDuration(tally.elapsed), tally.checks_per_second(), tally.allowed,
      tally.denied, tally.failed);
  for (const auto& [code, failures] : tally.errors) {
    text += fmt::format("         {} {}, the first: {}\n", failures.count, CodeName(code),
                        failures.first);
  }
  if (tally.answered() > 0) {
    text +=
        fmt::format("sources{}\nlatency{}\n", SourcesText(tally), QuantilesText(tally.latencies));
  }
  if (tally.waits.count() > 0) {
    text += fmt::format("waits    {}, {} in all{}\n", tally.waits.count(),
                        HumanDuration(tally.waited), QuantilesText(tally.waits));
  }
  return text + fmt::format("client   {:.1f} us of CPU a check, {} {:.0f} % busy\n{}",
                            tally.cpu_us_per_check(), plan.threads == 1 ? "its thread" : "threads",
                            100 * Busy(plan, tally), LatenessText(tally));
}

std::string RunJson(const Plan& plan, const Tally& tally) {
  const bool open = plan.rate > 0;
  return JsonText(Json{{"rpc", RpcText(plan.rpc)},
                       {"checks_per_message", plan.checks},
                       {"keys", plan.keys},
                       {"distribution", plan.zipf_exponent > 0 ? "zipf" : "uniform"},
                       {"loop", open ? "open" : "closed"},
                       {"in_flight", open ? 0 : plan.in_flight},
                       {"target_rate", plan.rate},
                       {"connections", plan.connections},
                       {"seconds", Seconds(tally.elapsed)},
                       {"checks", tally.checks()},
                       {"allowed", tally.allowed},
                       {"denied", tally.denied},
                       {"failed", tally.failed},
                       {"errors", ErrorsJson(tally)},
                       {"sources", SourcesJson(tally)},
                       {"checks_per_second", tally.checks_per_second()},
                       {"latency_us", LatencyJson(tally)},
                       {"wait_us", WaitJson(tally)},
                       {"client_cpu_us_per_check", tally.cpu_us_per_check()}});
}

std::string LatenessText(const Tally& tally) {
  const double share = tally.messages == 0
                           ? 0
                           : static_cast<double>(tally.late) / static_cast<double>(tally.messages);
  if (share < kTooManyLate) return "";
  return fmt::format(
      "The generator was the bottleneck: it sent {:.0f} % of the messages over {} late, up to {}.\n"
      "  The latencies are its own. Use a lower --rate, or more --threads.\n",
      100 * share, HumanDuration(Tally::kLate), HumanDuration(tally.latest));
}

}  // namespace sluice::tools
