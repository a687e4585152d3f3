// A child process that inherits the standard streams, the environment and the working directory.
//
// In the foreground of a terminal, the child stays in this process' group, so that keys (Ctrl-C,
// Ctrl-Z) reach the child and it can read from the terminal. Elsewhere (cron, CI, the background)
// the child leads a new process group, so that forwarded signals also reach the child's children.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/signal_queue.h"

namespace sluice::tools {

// Runs `command` until it ends; searches PATH for command[0]. Forwards each signal of `signals`,
// except a signal that the terminal has sent to both processes. Returns the command's exit status,
// or 128 + the signal that killed the command. Errors: kNotFound if there is no such program,
// kInternal if the program cannot be started.
Result<int> RunChild(const std::vector<std::string>& command, SignalQueue& signals);

}  // namespace sluice::tools
