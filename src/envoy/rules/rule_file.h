// Rule files of Envoy's rate limit service after parsing and before compiling: plain values, no
// behavior.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "config/yaml_reader.h"
#include "match/rule.h"

namespace sluice::envoy {

// Time units of limits, with the numbers of envoy.type.v3.RateLimitUnit. The windows of a unit are
// consecutive, starting at the epoch.
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

// Indexed by Unit.
inline constexpr std::array<std::string_view, 8> kUnitNames{"unknown", "second", "minute", "hour",
                                                            "day",     "month",  "year",   "week"};
inline constexpr std::array<Duration, 8> kUnitLengths{
    Duration(),           std::chrono::seconds(1), std::chrono::minutes(1), std::chrono::hours(1),
    std::chrono::days(1), std::chrono::days(30),   std::chrono::days(365),  std::chrono::days(7)};

constexpr Duration LengthOf(Unit unit) { return kUnitLengths[static_cast<std::size_t>(unit)]; }
constexpr std::string_view ToString(Unit unit) {
  return kUnitNames[static_cast<std::size_t>(unit)];
}

struct RateLimit {
  bool unlimited = false;
  Unit unit = Unit::kUnknown;
  std::uint32_t requests_per_unit = 0;
  std::string name;
  std::vector<std::string> replaces;  // names of other limits
  // Sluice's extension: its own limits instead of a unit.
  std::vector<RuleLimit> limits;
  OnStoreFailure on_store_failure = OnStoreFailure::kLocal;
};

struct Descriptor {
  std::string file;
  Position position;
  std::string key;
  std::string value;                    // empty: any; '*' matches any number of characters
  std::optional<RateLimit> rate_limit;  // absent: entries that end here are not limited
  std::vector<Descriptor> descriptors;  // for a request's next entry
  bool shadow_mode = false;
  bool quota_mode = false;
  bool share_threshold = false;  // all values that match share one counter
  bool detailed_metric = false;  // the metric's label has the request's values
  bool value_to_metric = false;  // the metric's label has this entry's value
  YamlNode metadata;             // a map; kNull: none

  bool is_wildcard() const { return value.find('*') != std::string::npos; }
};

struct RuleTree {
  std::string domain;
  std::string file;
  Position domain_position;  // in the file
  // Sluice's extension: if one limit denies a request, no limit counts the request.
  bool all_or_nothing = false;
  std::vector<Descriptor> descriptors;
};

}  // namespace sluice::envoy
