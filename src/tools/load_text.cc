#include "tools/load_text.h"

#include <chrono>

#include <fmt/format.h>

#include "base/json.h"
#include "client/status.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

struct Quantile {
  double share;
  const char* name;  // for people
  const char* key;   // in JSON
};

constexpr Quantile kQuantiles[] = {
    {0.5, "p50", "p50"}, {0.9, "p90", "p90"}, {0.99, "p99", "p99"}, {0.999, "p99.9", "p99_9"}};

// "p50":49,"p90":89,…,"max":98
std::string QuantilesJson(const load::LatencyHistogram& durations) {
  std::string json;
  for (const Quantile& quantile : kQuantiles) {
    json += fmt::format(R"("{}":{},)", quantile.key, durations.Quantile(quantile.share).count());
  }
  return json + fmt::format(R"("max":{})", durations.max().count());
}

}  // namespace

std::string QuantilesText(const load::LatencyHistogram& durations) {
  std::string text;
  for (const Quantile& quantile : kQuantiles) {
    text +=
        fmt::format("  {} {}", quantile.name, HumanDuration(durations.Quantile(quantile.share)));
  }
  return text + fmt::format("  max {}", HumanDuration(durations.max()));
}

std::string ProgressText(const LoadTally& tally, std::uint64_t checks) {
  return fmt::format("{} of {} checks: {} allowed, {} denied, {} errors, {:.0f}/s",
                     tally.finished(), checks, tally.allowed, tally.denied, tally.failed,
                     tally.rate());
}

std::string LoadText(const LoadTally& tally) {
  std::string text = fmt::format(
      "checks   {} in {} ({:.0f}/s)\n"
      "allowed  {}\n"
      "denied   {}\n"
      "errors   {}\n",
      tally.finished(), HumanDuration(tally.elapsed), tally.rate(), tally.allowed, tally.denied,
      tally.failed);
  for (const auto& [code, failures] : tally.errors) {
    text += fmt::format("         {} {}, the first: {}\n", failures.count, ToString(code),
                        failures.first);
  }
  if (tally.latencies.count() > 0) {
    text += fmt::format("latency{}\n", QuantilesText(tally.latencies));
  }
  if (tally.waits.count() > 0) {
    text += fmt::format("waits    {}, {} in all{}\n", tally.waits.count(),
                        HumanDuration(tally.waited), QuantilesText(tally.waits));
  }
  return text;
}

std::string LoadJson(const LoadTally& tally) {
  std::string errors;
  for (const auto& [code, failures] : tally.errors) {
    errors += fmt::format(R"({}"{}":{{"count":{},"first":{}}})", errors.empty() ? "" : ",",
                          ToString(code), failures.count, JsonString(failures.first));
  }
  return fmt::format(R"({{"checks":{},"allowed":{},"denied":{},"failed":{},"errors":{{{}}},)"
                     R"("elapsed_seconds":{:.6f},"rate":{:.1f},"latency_us":{{{}}},)"
                     R"("wait_us":{{"count":{},"total":{},{}}}}})",
                     tally.finished(), tally.allowed, tally.denied, tally.failed, errors,
                     std::chrono::duration<double>(tally.elapsed).count(), tally.rate(),
                     QuantilesJson(tally.latencies), tally.waits.count(), tally.waited.count(),
                     QuantilesJson(tally.waits));
}

std::string ErrorJson(const Error& error) {
  return fmt::format(R"({{"error":{{"code":"{}","message":{}}}}})", ToString(error.code),
                     JsonString(error.message));
}

}  // namespace sluice::tools
