// The outcome of a load, for people and for programs.
#pragma once

#include <string>

#include "base/clock.h"
#include "load/plan.h"
#include "load/recorder.h"
#include "load/tally.h"

namespace sluice::tools {

// One line, without its end: how far a run is.
std::string ProgressText(const load::Plan& plan, const load::Progress& progress, Duration elapsed);

// Decisions, errors, sources, latencies of messages, waits, the generator's own CPU; several lines.
std::string RunText(const load::Plan& plan, const load::Tally& tally);

// The same as one JSON object. All fields are always there, in the same order.
std::string RunJson(const load::Plan& plan, const load::Tally& tally);

// A warning if the generator was late, so that it was measured instead of the server; else empty.
std::string LatenessText(const load::Tally& tally);

}  // namespace sluice::tools
