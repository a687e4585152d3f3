// Lines on their way to a file descriptor: a bounded queue, and the thread "log" that writes it
// out. So nobody who logs ever waits for the descriptor, be it a pipe that nobody reads.
//
// Thread-safe, constructor and destructor excepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/thread.h"

namespace sluice {

class LogWriter {
 public:
  static constexpr std::size_t kMaxLines = 8'192;
  static constexpr std::size_t kMaxBytes = 4 * 1024 * 1024;

  // `fd` must stay open for as long as the process lives.
  explicit LogWriter(int fd);

  // Writes what is queued, for a second at most; a thread that is stuck then is left behind.
  ~LogWriter();

  // Queues a line. Returns whether there was room; if not, it is dropped and counted.
  bool Write(std::string_view line);

  // Waits until all that was queued is written. False: it took longer than `timeout`.
  bool Flush(Duration timeout);

  // How many lines were dropped, since there was no room or the descriptor was closed.
  std::uint64_t dropped() const;

 private:
  struct State;

  static void Run(State& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may have to stay behind
  Thread thread_;
};

}  // namespace sluice
