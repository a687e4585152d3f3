// The promises of the algorithms, each checked on every interval of what one counter admitted.
// Knows nothing of how Sluice keeps them.
//
// Pure functions. All take the admissions in order of time.
#pragma once

#include <cstdint>

#include "tests/accuracy/history.h"

namespace sluice::accuracy {

struct Findings {
  // The interval that came closest to its limit, or went furthest past it.
  std::int64_t units = 0;
  std::int64_t limit = 0;
  // Units admitted though an interval that ends with them was full.
  std::int64_t over = 0;

  // Adds what was found on another counter.
  void Add(const Findings& other);
};

// At most `limit` units in each window; windows lie end to end from the epoch on.
Findings CheckClockWindows(const Passages& admitted, std::int64_t limit, Duration window);

// At most `limit` units in every interval of the window's length, wherever it begins.
Findings CheckEveryWindow(const Passages& admitted, std::int64_t limit, Duration window);

// At most burst + rate · t units in every interval of every length t.
struct Drip {
  std::int64_t burst = 0;
  std::int64_t rate = 1;  // per period
  Duration period{};
  // Each check may come as soon as those before it are paid for: the last in the interval is free.
  bool pays_later = false;
  // Times are rounded to steps of this, so an interval is as much longer.
  Duration step{};
};
Findings CheckEveryLength(const Passages& admitted, const Drip& drip);

}  // namespace sluice::accuracy
