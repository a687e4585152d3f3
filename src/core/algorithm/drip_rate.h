// The fill or drain rate of a bucket: `rate` units per `period`. Bucket levels are integers: one
// unit is a level of `period` (in µs).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/algorithm/algorithm.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct DripRate {
  __extension__ using Wide = __int128;

  // The maximum of units · period of a bucket, with the period in µs.
  static constexpr std::int64_t kMaxCapacity = kMaxProduct / 2;
  // The maximum rate: rate times one minute (in µs) is at most kMaxProduct.
  static constexpr std::int64_t kMaxRate = kMaxProduct / Duration(std::chrono::minutes(1)).count();

  std::int64_t rate = 1;  // 1 to kMaxRate
  Duration period{};      // at least 1 µs

  // Whether this rate is at most `other`.
  bool IsAtMost(const DripRate& other) const {
    return static_cast<double>(rate) * static_cast<double>(other.period.count()) <=
           static_cast<double>(other.rate) * static_cast<double>(period.count());
  }

  // The sizes that rule files may give to a bucket. The bucket holds `reserved` units in addition
  // to its size.
  Parameters::Range SizeRange(std::int64_t least, std::int64_t reserved) const {
    return {least, kMaxCapacity / period.count() - reserved,
            " if the rate is in " + FormatPeriod(period)};
  }

  // The share of the rate for a bucket that holds `units`. The share is exact, unless levels would
  // be too large; then it is rounded down.
  DripRate For(const Share& share, std::int64_t units) const {
    if (share.parts == 0 || share.whole()) return *this;
    const std::int64_t shared = rate * share.parts;
    const Duration longer = period * share.of;
    const bool fits = longer.count() <= kMaxCapacity / std::max<std::int64_t>(1, units);
    if (fits && shared <= kMaxRate) return {shared, longer};
    if (shared >= share.of) return {shared / share.of, period};
    return {1, Duration(CeilDiv(longer.count(), shared))};
  }

  // Returns the share of `level`, converted to this period: one unit is `whole` in `level`, and
  // `period` in the result. Share::Of divides the whole units. The remaining fraction of a unit,
  // and all debt, are divided in proportion.
  std::int64_t ShareOf(std::int64_t level, Duration whole, const Share& share) const {
    if (share.whole()) return level;
    const std::int64_t units = std::max<std::int64_t>(0, level) / whole.count();
    const std::int64_t rest = level - units * whole.count();
    const auto scaled = static_cast<Wide>(rest) * share.parts * period.count();
    const auto divisor = static_cast<Wide>(share.of) * whole.count();
    const auto part = scaled / divisor - (scaled % divisor < 0 ? 1 : 0);
    return share.Of(units) * period.count() + static_cast<std::int64_t>(part);
  }
};

}  // namespace sluice
