// The signals that ask this process to end, or to do something, as a queue: none interrupts, none
// kills, each is there to be read. Those ignored from the start (as nohup does) stay ignored.
//
// For one thread. Signals stay blocked for good: whoever makes a queue is about to end by its own.
#pragma once

#include <csignal>
#include <optional>

#include "base/clock.h"

namespace sluice::tools {

class SignalQueue {
 public:
  // REQUIRES: no other thread runs yet, since threads inherit what is blocked.
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  struct Signal {
    int number = 0;
    bool from_terminal = false;  // a key or a hang-up: the whole foreground has got it
  };

  // The next signal; nothing if none comes until `deadline`.
  std::optional<Signal> WaitUntil(SteadyTime deadline);

  // The next signal, if there is one.
  std::optional<Signal> Next();

  // Readable while there is one.
  int fd() const { return fd_; }

  // What was blocked before, for programs to start with.
  const sigset_t& mask_before() const { return mask_before_; }

 private:
  sigset_t mask_before_{};
  int fd_ = -1;
};

}  // namespace sluice::tools
