// Time stamps of logs.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"

namespace sluice::replay {

struct TimeStamp {
  Time at;
  bool whole_second = false;  // the stamp has no fraction of a second
};

// Parses "25/Nov/2026:15:16:49 +0100", "2026-11-25T15:16:49.123+01:00" (without offset: UTC), or a
// number of seconds, milliseconds, microseconds or nanoseconds since 1970. The number of digits
// tells the unit.
std::optional<TimeStamp> ParseTimeStamp(std::string_view text);

}  // namespace sluice::replay
