// A child process that inherits the standard streams, the environment and the working directory.
//
// In the foreground of a terminal, the child stays in this process' group, so that keys (Ctrl-C,
// Ctrl-Z) reach it and it can read from the terminal. Elsewhere (cron, CI, the background) it leads
// a new process group, so that forwarded signals also reach its own children.
//
// Not thread-safe.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/signal_queue.h"

namespace sluice::tools {

class ChildProcess {
 public:
  // Searches PATH for `command[0]`. `mask`: the child's signal mask. Errors: kNotFound if there is
  // no such program, kInternal if it cannot be started.
  static Result<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& command,
                                                     const sigset_t& mask);

  // REQUIRES: Reap has been called.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Forwards a signal to the child, unless the terminal has sent it to both processes.
  void Forward(const SignalQueue::Signal& signal);

  // Readable when the child has ended.
  int fd() const { return fd_; }

  // Waits until the child ends. Returns its exit status, or 128 + the signal that killed it.
  int Reap();

 private:
  ChildProcess(pid_t pid, int fd, bool leads_group)
      : pid_(pid), fd_(fd), leads_group_(leads_group) {}

  const pid_t pid_;
  const int fd_;
  const bool leads_group_;
};

}  // namespace sluice::tools
