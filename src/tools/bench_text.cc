#include "tools/bench_text.h"

#include <chrono>
#include <iterator>

#include <fmt/format.h>

#include "tools/load_text.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

using load::CodeName;
using load::Plan;
using load::Rpc;
using load::Tally;

// The API's sources, by their numbers.
constexpr const char* kSources[] = {"UNSPECIFIED", "STORE", "DENY_CACHE",
                                    "FALLBACK",    "RULE",  "NO_RULE"};
static_assert(std::size(kSources) == std::tuple_size_v<decltype(Tally::sources)>);

// More late messages than this show in the 99th percentile.
constexpr double kTooManyLate = 0.01;

const char* RpcText(Rpc rpc) {
  return rpc == Rpc::kUnary ? "unary" : rpc == Rpc::kBatch ? "batch" : "stream";
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// The share of the time in which the generator's threads did something.
double Busy(const Plan& plan, const Tally& tally) {
  return tally.elapsed.count() == 0 ? 0 : tally.cpu.count() / Seconds(tally.elapsed) / plan.threads;
}

std::string SourcesText(const Tally& tally) {
  std::string text;
  for (std::size_t i = 0; i < tally.sources.size(); ++i) {
    if (tally.sources[i] > 0) text += fmt::format("  {} {}", kSources[i], tally.sources[i]);
  }
  return text;
}

std::string SourcesJson(const Tally& tally) {
  std::string json;
  for (std::size_t i = 0; i < tally.sources.size(); ++i) {
    if (tally.sources[i] == 0) continue;
    json += fmt::format(R"({}"{}":{})", json.empty() ? "" : ",", kSources[i], tally.sources[i]);
  }
  return json;
}

std::string ErrorsJson(const Tally& tally) {
  std::string json;
  for (const auto& [code, failures] : tally.errors) {
    json += fmt::format(R"({}"{}":{})", json.empty() ? "" : ",", CodeName(code), failures.count);
  }
  return json;
}

std::string LatencyJson(const load::LatencyHistogram& latencies) {
  const auto us = [&latencies](double share) { return latencies.Quantile(share).count(); };
  return fmt::format(R"("p50":{},"p90":{},"p99":{},"p99.9":{},"max":{})", us(0.5), us(0.9),
                     us(0.99), us(0.999), latencies.max().count());
}

}  // namespace

std::string BenchProgressText(const Plan& plan, const load::Progress& progress, Duration elapsed) {
  const std::uint64_t answered = progress.allowed + progress.denied;
  return fmt::format("{:.0f} of {:.0f} s: {} allowed, {} denied, {} errors, {:.0f}/s",
                     Seconds(elapsed), Seconds(plan.warm_up + plan.duration), progress.allowed,
                     progress.denied, progress.failed,
                     static_cast<double>(answered) / Seconds(elapsed));
}

std::string BenchText(const Plan& plan, const Tally& tally) {
  std::string text = fmt::format(
      "checks   {} in {:.2f} s ({:.0f}/s)\n"
      "allowed  {}\n"
      "denied   {}\n"
      "errors   {}\n",
      tally.checks(), Seconds(tally.elapsed), tally.checks_per_second(), tally.allowed,
      tally.denied, tally.failed);
  for (const auto& [code, failures] : tally.errors) {
    text += fmt::format("         {} {}, the first: {}\n", failures.count, CodeName(code),
                        failures.first);
  }
  if (tally.answered() > 0) {
    text +=
        fmt::format("sources{}\nlatency{}\n", SourcesText(tally), QuantilesText(tally.latencies));
  }
  return text + fmt::format("client   {:.1f} us of CPU a check, {} {:.0f} % busy\n{}",
                            tally.cpu_us_per_check(), plan.threads == 1 ? "its thread" : "threads",
                            100 * Busy(plan, tally), LatenessText(tally));
}

std::string BenchJson(const Plan& plan, const Tally& tally) {
  const bool open = plan.rate > 0;
  return fmt::format(
      R"({{"rpc":"{}","checks_per_message":{},"keys":{},"distribution":"{}","loop":"{}",)"
      R"("in_flight":{},"target_rate":{},"connections":{},"seconds":{:.6f},)"
      R"("checks":{},"allowed":{},"denied":{},"failed":{},"errors":{{{}}},"sources":{{{}}},)"
      R"("checks_per_second":{:.1f},"latency_us":{{{}}},"client_cpu_us_per_check":{:.3f}}})",
      RpcText(plan.rpc), plan.checks, plan.keys, plan.zipf_exponent > 0 ? "zipf" : "uniform",
      open ? "open" : "closed", open ? 0 : plan.in_flight, plan.rate, plan.connections,
      Seconds(tally.elapsed), tally.checks(), tally.allowed, tally.denied, tally.failed,
      ErrorsJson(tally), SourcesJson(tally), tally.checks_per_second(),
      LatencyJson(tally.latencies), tally.cpu_us_per_check());
}

std::string LatenessText(const Tally& tally) {
  const double share = tally.messages == 0
                           ? 0
                           : static_cast<double>(tally.late) / static_cast<double>(tally.messages);
  if (share < kTooManyLate) return "";
  return fmt::format(
      "The generator was the bottleneck: it sent {:.0f} % of the messages over {} late, up to {}.\n"
      "  Latencies are its own then. Ask for a lower --rate, or give it more --threads.\n",
      100 * share, HumanDuration(Tally::kLate), HumanDuration(tally.latest));
}

}  // namespace sluice::tools
