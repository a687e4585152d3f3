// Durations, as people write them.
#pragma once

#include <string>

#include "base/clock.h"

namespace sluice::tools {

// In the unit a person would choose, to three digits, rounded up, so that who waits as long as it
// says has waited long enough: "85 ms", "1.25 s", "2 min 5 s", "3 d 4 h".
std::string HumanDuration(Duration duration);

}  // namespace sluice::tools
