// Decides when a loop has too much to do beside the others, and which of its connections goes
// elsewhere: it is sent GOAWAY, and the client that connects anew comes to the least loaded loop.
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

// Of loops, as EpollLoop::load has them: in 1/1024.
struct Loads {
  double own = 0;
  double mean_of_others = 0;
  double least_of_others = 0;
};

class Balance {
 public:
  static constexpr std::chrono::seconds kInterval{1};  // between two calls of Judge
  static constexpr std::chrono::seconds kPatience{10};

  // `calls`: of each connection since the last Judge. Returns the one to send elsewhere: the
  // busiest whose going makes things better. Nothing unless this loop has for kPatience been at
  // least half busy and twice as busy as the others are on average.
  std::optional<std::size_t> Judge(SteadyTime now, const Loads& loads,
                                   std::span<const std::uint64_t> calls);

 private:
  std::optional<SteadyTime> overloaded_since_;
  SteadyTime last_{};
};

}  // namespace sluice::rpc::http2
