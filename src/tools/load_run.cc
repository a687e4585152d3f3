#include "tools/load_run.h"

#include <cstdio>

#include <fmt/format.h>

#include "client/status.h"
#include "load/generator.h"
#include "tools/load_report.h"
#include "tools/message_json.h"
#include "tools/run_progress.h"
#include "tools/server_options.h"

namespace sluice::tools {
namespace {

void PrintStartError(const Address& address, bool json, const Error& error) {
  if (json) fmt::print("{}\n", ErrorJson(error));
  if (error.code == ErrorCode::kUnavailable) {
    PrintNoServer(address, error.message);
  } else {
    fmt::print(stderr, "sluice: {}: {}\n", ToString(error.code), error.message);
  }
}

}  // namespace

Result<load::LoadStats> RunLoad(const load::Plan& plan, bool json) {
  const auto started = load::Generator::Start(plan);
  if (!started) {
    PrintStartError(plan.address, json, started.error());
    return started.error();
  }
  load::Generator& generator = **started;
  const SteadyTime start = SteadyNow();
  Watch({.wait_until = [&](SteadyTime deadline) { return generator.WaitUntil(deadline); },
         .stop = [&] { generator.Stop(); },
         .progress =
             [&] {
               const auto elapsed = std::chrono::duration_cast<Duration>(SteadyNow() - start);
               return ProgressText(plan, generator.progress(), elapsed);
             }});
  load::LoadStats stats = generator.stats();
  fmt::print("{}", json ? LoadReportJson(plan, stats) + "\n" : LoadReportText(plan, stats));
  if (json) std::fputs(LatenessText(stats).c_str(), stderr);  // does not throw if it is closed
  if (!stats.lost.empty()) {
    fmt::print(stderr, "sluice: every connection to {} was lost: {}\n", plan.address.ToString(),
               stats.lost);
  }
  return stats;
}

}  // namespace sluice::tools
