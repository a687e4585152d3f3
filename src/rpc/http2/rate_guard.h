// A token bucket that detects floods of events.
//
// Loop thread only.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace sluice::rpc::http2 {

class RateGuard {
 public:
  constexpr RateGuard(double burst, double per_second)
      : burst_(burst), per_second_(per_second), left_(burst) {}

  // Counts an event. Returns false if it exceeds the rate and the burst.
  bool Allow(SteadyTime now) {
    using Seconds = std::chrono::duration<double>;
    left_ = std::min(burst_, left_ + Seconds(now - last_).count() * per_second_);
    last_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  // Refills the bucket.
  void Reset() { left_ = burst_; }

 private:
  const double burst_;
  const double per_second_;
  double left_;
  SteadyTime last_{};
};

}  // namespace sluice::rpc::http2
