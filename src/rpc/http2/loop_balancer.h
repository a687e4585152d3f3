// Detects when a loop is overloaded compared with the others, and chooses a connection to move. The
// caller sends it GOAWAY, so that the client reconnects, and is assigned to the least loaded loop.
//
// Loop thread only. Does no I/O.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"

namespace sluice::rpc::http2 {

// Loads of loops in 1/1024, as from EpollLoop::load.
struct LoopLoads {
  double own = 0;
  double mean_of_others = 0;
  double least_of_others = 0;
};

class LoopBalancer {
 public:
  static constexpr std::chrono::seconds kInterval{1};  // between calls of ConnectionToMove
  static constexpr std::chrono::seconds kOverloadDuration{10};

  // `calls`: the calls of each connection since the last call of this function. Returns the index
  // of the busiest connection whose move improves the balance. Returns nullopt unless, for
  // kOverloadDuration, this loop has been at least half busy and twice as busy as the others on
  // average.
  std::optional<std::size_t> ConnectionToMove(SteadyTime now, const LoopLoads& loads,
                                              std::span<const std::uint64_t> calls);

 private:
  std::optional<SteadyTime> overloaded_since_;
  SteadyTime last_{};
};

}  // namespace sluice::rpc::http2
