// The promises of the algorithms, checked on every interval of a counter's admissions. Independent
// of Sluice's implementation.
//
// Pure functions. All take admissions ordered by time.
#pragma once

#include <cstdint>

#include "tests/accuracy/history.h"

namespace sluice::accuracy {

struct Findings {
  // The interval that came closest to its limit, or exceeded it most.
  std::int64_t units = 0;
  std::int64_t limit = 0;
  // The units over the limits. For each passage, adds the excess of the fullest interval that ends
  // with it, but at most the cost of the passage.
  std::int64_t over = 0;

  // Adds the findings of another counter.
  void Add(const Findings& other);
};

// At most `limit` units in each window. Windows are consecutive and start at the epoch.
Findings CheckClockWindows(const Passages& admitted, std::int64_t limit, Duration window);

// At most `limit` units in every interval of the window's length, wherever it begins.
Findings CheckEveryWindow(const Passages& admitted, std::int64_t limit, Duration window);

// At most burst + rate · t units in every interval of any length t.
struct Drip {
  std::int64_t burst = 0;
  std::int64_t rate = 1;  // per period
  Duration period{};
  // A check is admitted as soon as the earlier checks are paid for, so the cost of the last check
  // in an interval does not count.
  bool pays_later = false;
  // The resolution of times. It is added to the length of each interval.
  Duration step{};
};
Findings CheckEveryLength(const Passages& admitted, const Drip& drip);

}  // namespace sluice::accuracy
