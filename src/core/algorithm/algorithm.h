// What all algorithms share: how a counter meets a clock that is behind it, and what it answers.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace sluice {

// A counter whose state is newer than the clock by at most this has met the skew between two
// clocks: time stands still for it. By more, the clock has been replaced (a failover to a machine
// whose clock differs), and the counter is moved to the new clock once.
inline constexpr Duration kMaxSkew = std::chrono::seconds(1);

inline bool ClockWasReplaced(Time last, Time now) { return now < last - kMaxSkew; }

// Whether a state that no grant has changed must be stored all the same.
enum class Keep {
  kNo,
  kUnlessPeek,  // the counter begins to exist with this check
  kAlways,      // the counter was moved to a new clock
};

// What one limit says to one request. Durations count from the time of the decision.
struct Verdict {
  bool admitted = false;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  Duration reset_after{};
  Duration retry_after = kNever;  // meaningful unless admitted

  static constexpr Duration kNever = Duration::max();

  bool operator==(const Verdict&) const = default;
};

// Rounds up; REQUIRES: numerator >= 0, denominator > 0.
inline std::int64_t CeilDiv(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0);
}

// Rounds towards minus infinity, as Lua's math.floor does; REQUIRES: denominator > 0.
inline std::int64_t FloorDiv(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator - (numerator % denominator < 0);
}

}  // namespace sluice
