// A queue of received signals (SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2): they neither
// interrupt nor kill this process. Signals ignored at the start (as by nohup) stay ignored.
//
// Not thread-safe. The signals stay blocked after the queue is destroyed.
#pragma once

#include <csignal>
#include <optional>

#include "base/clock.h"

namespace sluice::tools {

class SignalQueue {
 public:
  // REQUIRES: no other thread runs yet, since threads inherit the signal mask.
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  struct Signal {
    int number = 0;
    // Whether the terminal sent the signal to its whole foreground process group, because of a key
    // or a hang-up.
    bool from_terminal = false;
  };

  // Waits for the next signal. Returns nullopt at `deadline`.
  std::optional<Signal> WaitUntil(SteadyTime deadline);

  // The next signal, or nullopt if the queue is empty.
  std::optional<Signal> Next();

  // Readable while the queue is not empty.
  int fd() const { return fd_; }

  // The signal mask before the queue was created, for child processes.
  const sigset_t& mask_before() const { return mask_before_; }

 private:
  sigset_t mask_before_{};
  int fd_ = -1;
};

}  // namespace sluice::tools
