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
// A bucket that is full at first.
std::int64_t IdealTokenBucket(const Passages& checks, std::int64_t burst, const Rate& rate);

}  // namespace sluice::accuracy
