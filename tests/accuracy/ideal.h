// The units that an exact limiter would have admitted: the reference that shows whether an
// algorithm admits too little. Simple implementations of the definitions, independent of src/core.
//
// Pure functions. All take the checks in the order of their decisions and return admitted units.
#pragma once

#include <cstdint>

#include "tests/accuracy/history.h"
#include "tests/accuracy/promise.h"

namespace sluice::accuracy {

std::int64_t IdealClockWindows(const Passages& checks, std::int64_t limit, Duration window);
std::int64_t IdealSlidingLog(const Passages& checks, std::int64_t limit, Duration window);

struct Bucket {
  std::int64_t burst = 1;
  std::int64_t rate = 1;  // per period
  Duration period{};
  bool starts_empty = false;
  bool borrows = false;  // a check is admitted if the level is not below zero
  Duration max_wait{};   // a check may use units that arrive within this time
};
std::int64_t IdealTokenBucket(const Passages& checks, const Bucket& bucket);

// Guava's SmoothWarmingUp: a permit costs time. A cold bucket has many stored permits; these cost
// up to three times as much as new ones. Each check pays for its permits with time; the next
// check is admitted when this time has passed.
struct Warmup {
  std::int64_t rate = 1;  // per period
  Duration period{};
  Duration warmup{};
};
std::int64_t IdealWarmingBucket(const Passages& checks, const Warmup& bucket);

}  // namespace sluice::accuracy
