// Snapshot of a concurrency counter. As small as those of other algorithms. A value.
#pragma once

#include <array>
#include <cstdint>

#include "core/algorithm/algorithm.h"

namespace sluice {

struct SlotsSnapshot {
  std::int32_t counted = 0;  // slots
  std::int32_t limit = 0;    // in force
  Time reset_at;             // as in a UsageSnapshot
  Time retry_at;

  bool operator==(const SlotsSnapshot&) const = default;

  UsageSnapshot usage() const { return {counted, reset_at, retry_at}; }

  // The first number holds the limit, too.
  static constexpr std::int64_t kLimitUnit = std::int64_t{1} << 32;
  static SlotsSnapshot FromFields(const std::array<double, 3>& fields) {
    const auto both = static_cast<std::int64_t>(fields[0]);
    return {static_cast<std::int32_t>(both % kLimitUnit),
            static_cast<std::int32_t>(both / kLimitUnit), ToTime(fields[1]), ToTime(fields[2])};
  }
  std::array<double, 3> ToFields() const {
    return {ToNumber(limit * kLimitUnit + counted), ToNumber(reset_at), ToNumber(retry_at)};
  }
};

}  // namespace sluice
