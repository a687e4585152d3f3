// Durations as text.
#pragma once

#include <string>

#include "base/clock.h"

namespace sluice::tools {

// A duration with at most three digits or in two units: "85 ms", "1.25 s", "2 min 5 s", "3 d 4 h".
// Rounds up, so that a caller who waits for the shown time always waits long enough.
std::string HumanDuration(Duration duration);

}  // namespace sluice::tools
