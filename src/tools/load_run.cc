#include "tools/load_run.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>

#include "load/generator.h"
#include "tools/load_report.h"
#include "tools/server_options.h"

namespace sluice::tools {
namespace {

std::atomic<bool> interrupted = false;

// Shows the progress on stderr until the run has ended. Ctrl-C ends it early. On a terminal,
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
  if (json) std::fputs(LatenessText(stats).c_str(), stderr);  // does not throw if it is closed
  if (!stats.lost.empty()) {
    fmt::print(stderr, "sluice: every connection to {} was lost: {}\n", address.ToString(),
               stats.lost);
  }
  return stats;
}

}  // namespace sluice::tools
