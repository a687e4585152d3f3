#include "load/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace sluice::load {

void LatencyHistogram::Add(Duration latency) {
  constexpr std::uint64_t kLargest = (std::uint64_t{kExact} << kDoublings) - 1;
  const std::uint64_t us =
      std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0)), kLargest);
  std::size_t bucket = us;
  if (us >= kExact) {
    const int shift = std::bit_width(us) - std::bit_width(std::uint64_t{kPerDoubling});
    bucket = kExact + kPerDoubling * static_cast<std::size_t>(shift - 1) +
             ((us >> shift) - kPerDoubling);
  }
  ++buckets_[bucket];
  ++count_;
  max_ = std::max(max_, latency);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

Duration LatencyHistogram::Quantile(double quantile) const {
  const auto rank = static_cast<std::uint64_t>(std::ceil(quantile * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen == 0 || seen < rank) continue;
    if (i < kExact) return std::min(Duration(i), max_);
    const std::size_t shift = (i - kExact) / kPerDoubling + 1;
    const std::uint64_t above = (i - kExact) % kPerDoubling + kPerDoubling + 1;
    return std::min(Duration((above << shift) - 1), max_);
  }
  return max_;
}

}  // namespace sluice::load
