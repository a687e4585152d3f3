// A program started by this process, with its standard streams, environment and directory.
//
// At a terminal it shares this process' group, so that keys (Ctrl-C, Ctrl-Z) reach it and it may
// read what is typed. Elsewhere (cron, CI, the background) it leads a group of its own, so that
// what is sent to it reaches the programs it started, too.
//
// For one thread.
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
  // `command[0]` is looked for in PATH. `mask`: the signals it has blocked. Errors: kNotFound,
  // there is no such program; kInternal, it cannot be started.
  static Result<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& command,
                                                     const sigset_t& mask);

  // REQUIRES: Reap has been called.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Passes on what this process got, unless the child has got it as well.
  void Forward(const SignalQueue::Signal& signal);

  // Readable when it has ended.
  int fd() const { return fd_; }

  // Waits for its end. Its exit status, 128 + signal if one killed it.
  int Reap();

 private:
  ChildProcess(pid_t pid, int fd, bool leads_group)
      : pid_(pid), fd_(fd), leads_group_(leads_group) {}

  const pid_t pid_;
  const int fd_;
  const bool leads_group_;
};

}  // namespace sluice::tools
