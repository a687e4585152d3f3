// Latencies counted in buckets: exact below 128 µs, within 1.6 % above. Constant memory, whatever
// the number of values; the idea is that of HdrHistogram.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace sluice::load {

class LatencyHistogram {
 public:
  // Above 12 days counts as 12 days.
  void Add(Duration latency);

  // Adds all that `other` has counted.
  void Merge(const LatencyHistogram& other);

  // The latency that the share `quantile` (0 to 1) of all values does not pass, rounded up to the
  // end of its bucket. 0 if there are no values.
  Duration Quantile(double quantile) const;

  Duration max() const { return max_; }
  std::uint64_t count() const { return count_; }

 private:
  static constexpr int kExact = 128;       // values that have a bucket each
  static constexpr int kPerDoubling = 64;  // buckets of each doubling after that
  static constexpr int kDoublings = 33;

  std::array<std::uint64_t, kExact + kPerDoubling * kDoublings> buckets_{};
  std::uint64_t count_ = 0;
  Duration max_{};
};

}  // namespace sluice::load
