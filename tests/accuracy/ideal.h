// What an exact limiter would have admitted of the same checks: the yardstick for under-admission.
// Written from the definitions, as simply as they can be put; shares nothing with src/core.
//
// Pure functions. All take the checks in the order of their decisions and return units admitted.
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
  bool borrows = false;  // a check needs no more than a level that is not below zero
  Duration max_wait{};   // a check may use what drips in meanwhile
};
std::int64_t IdealTokenBucket(const Passages& checks, const Bucket& bucket);

// Guava's SmoothWarmingUp: permits that gathered in idle time cost more, three times as much when
// cold, and a check is due when those before it are paid for.
struct Warmup {
  std::int64_t rate = 1;  // per period
  Duration period{};
  Duration warmup{};
};
std::int64_t IdealWarmingBucket(const Passages& checks, const Warmup& bucket);

}  // namespace sluice::accuracy
