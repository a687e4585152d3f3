#include "tools/run_progress.h"

#include <atomic>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace sluice::tools {
namespace {

std::atomic<bool> interrupted = false;

}  // namespace

void Watch(const RunControl& run) {
  std::signal(SIGINT, [](int) { interrupted = true; });
  const bool terminal = isatty(STDERR_FILENO) != 0;
  constexpr auto kTick = std::chrono::milliseconds(100);
  const auto print_every = terminal ? kTick : std::chrono::seconds(1);
  SteadyTime print_at = SteadyNow() + print_every;
  while (!run.wait_until(SteadyNow() + kTick)) {
    if (interrupted) run.stop();
    if (SteadyNow() < print_at) continue;
    print_at += print_every;
    // Unlike fmt::print, fputs does not throw if stderr is closed: the load goes on.
    std::fputs(
        fmt::format("{}{}{}", terminal ? "\r" : "", run.progress(), terminal ? "\x1b[K" : "\n")
            .c_str(),
        stderr);
  }
  if (terminal) std::fputs("\r\x1b[K", stderr);
}

}  // namespace sluice::tools
