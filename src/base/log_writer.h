// A bounded queue of lines, and the thread "log" that writes them to a file descriptor. Callers
// never wait for the descriptor.
//
// Thread-safe, except for the constructor and the destructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/thread.h"

namespace sluice {

class LogWriter {
 public:
  static constexpr std::size_t kMaxLines = 8'192;
  static constexpr std::size_t kMaxBytes = 4 * 1024 * 1024;

  // `fd` must stay open until the process ends.
  explicit LogWriter(int fd);

  // Writes the queued lines, for up to one second. If the thread is still blocked then, it is
  // detached.
  ~LogWriter();

  // Queues a line. If the queue is full, drops and counts the line and returns false.
  bool Write(std::string_view line);

  // Waits until all queued lines are written. Returns false after `timeout`.
  bool Flush(Duration timeout);

  // The number of lines dropped because the queue was full or a write failed.
  std::uint64_t dropped() const;

 private:
  struct State;

  static void Run(State& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may be detached
  Thread thread_;
};

}  // namespace sluice
