// A child process that inherits the standard streams, the environment and the working directory.
//
// In the foreground of a terminal, the child stays in this process' group, so that keys (Ctrl-C,
// Ctrl-Z) reach it and it can read from the terminal. Elsewhere (cron, CI, the background) it leads
// a new process group, so that forwarded signals also reach its own children.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/signal_queue.h"

namespace sluice::tools {

// Runs `command` until it ends; searches PATH for command[0]. Forwards each signal of `signals`,
// unless the terminal has sent it to both processes. Returns the exit status, or 128 + the signal
// that killed it. Errors: kNotFound if there is no such program, kInternal if it cannot be started.
Result<int> RunChild(const std::vector<std::string>& command, SignalQueue& signals);

}  // namespace sluice::tools
