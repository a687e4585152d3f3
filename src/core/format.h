// Values formatted as in rule files.
#pragma once

#include <string>

#include "base/clock.h"

namespace sluice {

// A duration in its largest whole unit: "250ms", "10s", "1d".
std::string FormatDuration(Duration duration);

// The suffix of a rate per `period`: "/s", "/m", "/h" or "/d". REQUIRES: one of these periods.
std::string FormatPeriod(Duration period);

// Local time minus UTC: "+08:00".
std::string FormatUtcOffset(Duration offset);

}  // namespace sluice
