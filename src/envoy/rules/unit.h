// Time units of Envoy's limits. The windows of a unit are consecutive, starting at the epoch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace sluice::envoy {

// With the numbers of envoy.type.v3.RateLimitUnit.
enum class Unit : std::uint8_t {
  kUnknown = 0,
  kSecond = 1,
  kMinute = 2,
  kHour = 3,
  kDay = 4,
  kMonth = 5,  // 30 days
  kYear = 6,   // 365 days
  kWeek = 7,   // from Thursday on
};

// By number.
inline constexpr std::array<std::string_view, 8> kUnitNames{"unknown", "second", "minute", "hour",
                                                            "day",     "month",  "year",   "week"};
inline constexpr std::array<Duration, 8> kUnitLengths{
    Duration(),           std::chrono::seconds(1), std::chrono::minutes(1), std::chrono::hours(1),
    std::chrono::days(1), std::chrono::days(30),   std::chrono::days(365),  std::chrono::days(7)};

constexpr Duration LengthOf(Unit unit) { return kUnitLengths[static_cast<std::size_t>(unit)]; }
constexpr std::string_view ToString(Unit unit) {
  return kUnitNames[static_cast<std::size_t>(unit)];
}

// The unit with this number. Empty if there is none; never kUnknown.
constexpr std::optional<Unit> UnitOfNumber(std::uint64_t number) {
  if (number == 0 || number >= kUnitLengths.size()) return std::nullopt;
  return static_cast<Unit>(number);
}

}  // namespace sluice::envoy
