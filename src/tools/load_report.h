// The report of a load, as text and as JSON.
#pragma once

#include <string>

#include "base/clock.h"
#include "load/load_stats.h"
#include "load/plan.h"
#include "load/recorder.h"

namespace sluice::tools {

// The progress of a run as one line, without a newline.
std::string ProgressText(const load::Plan& plan, const load::Progress& progress, Duration elapsed);

// Several lines: decisions, errors, sources, latencies of messages, waits, the generator's CPU
// time.
std::string LoadReportText(const load::Plan& plan, const load::LoadStats& stats);

// The same as one JSON object. All fields are always present, in the same order.
std::string LoadReportJson(const load::Plan& plan, const load::LoadStats& stats);

// A warning if the generator was the bottleneck, so that the figures do not describe the server.
// Otherwise empty.
std::string LatenessText(const load::LoadStats& stats);

}  // namespace sluice::tools
