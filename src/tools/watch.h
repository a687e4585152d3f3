// What the user sees of a run that takes a while.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"

namespace sluice::tools {

struct WatchedRun {
  // Whether the run is over; waits for it until `deadline`.
  std::function<bool(SteadyTime deadline)> wait_until;
  std::function<void()> stop;
  // How it goes, on one line without its end.
  std::function<std::string()> progress;
};

// Shows on stderr how the run goes until it is over; Ctrl-C ends it early. A line that lives on a
// terminal, else a line a second. Once a process.
void Watch(const WatchedRun& run);

}  // namespace sluice::tools
