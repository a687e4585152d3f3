// A histogram of latencies: exact below 128 µs, within 1.6 % above. Uses constant memory. Source:
// HdrHistogram.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace sluice::load {

class LatencyHistogram {
 public:
  // Counts a latency. Values above 12 days count as 12 days.
  void Add(Duration latency);

  // Adds the counts of `other`.
  void Merge(const LatencyHistogram& other);

  // The quantile of all values (`quantile` from 0 to 1), rounded up to the end of its bucket. 0 if
  // there are no values.
  Duration Quantile(double quantile) const;

  Duration max() const { return max_; }
  std::uint64_t count() const { return count_; }

 private:
  static constexpr int kExact = 128;       // values with one bucket each
  static constexpr int kPerDoubling = 64;  // buckets for each doubling after that
  static constexpr int kDoublings = 33;

  std::array<std::uint64_t, kExact + kPerDoubling * kDoublings> buckets_{};
  std::uint64_t count_ = 0;
  Duration max_{};
};

}  // namespace sluice::load
