// Progress output for a long run.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"

namespace sluice::tools {

struct RunControl {
  // Waits until the run has ended. Returns false at `deadline`.
  std::function<bool(SteadyTime deadline)> wait_until;
  std::function<void()> stop;
  // The progress as one line, without a newline.
  std::function<std::string()> progress;
};

// Shows the progress on stderr until the run has ended. Ctrl-C ends it early. On a terminal,
// updates one line; elsewhere, prints a line per second. Call it at most once per process.
void Watch(const RunControl& run);

}  // namespace sluice::tools
