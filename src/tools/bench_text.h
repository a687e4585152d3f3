// What came of `sluice bench`, for people and for programs.
#pragma once

#include <string>

#include "base/clock.h"
#include "load/plan.h"
#include "load/recorder.h"
#include "load/tally.h"

namespace sluice::tools {

// One line, without its end: how far a run is.
std::string BenchProgressText(const load::Plan& plan, const load::Progress& progress,
                              Duration elapsed);

// Decisions, errors, sources, latencies of messages, the generator's own CPU; several lines.
std::string BenchText(const load::Plan& plan, const load::Tally& tally);

// The same as one JSON object, its fields always there and always in this order.
std::string BenchJson(const load::Plan& plan, const load::Tally& tally);

// A line if the generator could not keep its own schedule, so that it was measured, not the server.
std::string LatenessText(const load::Tally& tally);

}  // namespace sluice::tools
