// Durations, as people write them.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::tools {

// In the unit a person would choose, to three digits, rounded up, so that who waits as long as it
// says has waited long enough: "85 ms", "1.25 s", "2 min 5 s", "3 d 4 h".
std::string HumanDuration(Duration duration);

// A positive duration with its unit: "500us", "250ms", "2s", "1m". At most a day.
Result<Duration> ParseDuration(std::string_view text);

}  // namespace sluice::tools
