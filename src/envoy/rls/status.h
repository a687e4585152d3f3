// The status of one descriptor, and the overall code of a request that has several.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "envoy/rules/unit.h"

namespace sluice::envoy {

// With the numbers of RateLimitResponse.Code.
enum class Code : std::uint8_t { kOk = 1, kOverLimit = 2 };

// RateLimitResponse.RateLimit.
struct CurrentLimit {
  std::uint32_t requests_per_unit = 0;
  Unit unit = Unit::kUnknown;
  std::string_view name;  // the rules'
};

// RateLimitResponse.DescriptorStatus.
struct Status {
  Code code = Code::kOk;
  std::optional<CurrentLimit> limit;
  std::uint32_t remaining = 0;
  std::optional<std::chrono::seconds> until_reset;
  bool quota = false;  // its rule is in quota_mode
};

// kOverLimit if a status outside quota_mode is over its limit, or all (at least one) in quota_mode.
Code OverallCode(std::span<const Status> statuses);

// The status for the response headers: the last one over its limit that is not in quota_mode.
// Without such a status, the one with the least remaining. Null if no status has a limit.
const Status* StatusForHeaders(std::span<const Status> statuses);

}  // namespace sluice::envoy
