// Runs a load for `sluice bench` and `sluice check --repeat`, and reports it as text or as JSON.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "load/plan.h"
#include "load/recorder.h"

namespace sluice::tools {

// Runs `plan`, shows its progress on stderr and prints the report on stdout, as JSON or as text.
// Ctrl-C ends the run early. Call it once per process. If the run cannot start, prints the error
// and returns it.
Result<load::LoadStats> RunLoad(const load::Plan& plan, bool json);

// The progress of a run as one line, without a newline.
std::string ProgressText(const load::Plan& plan, const load::Progress& progress, Duration elapsed);

// Several lines: decisions, errors, sources, latencies of messages, waits, the generator's CPU
// time.
std::string LoadReportText(const load::Plan& plan, const load::LoadStats& stats);

// The same as one JSON object. All fields are always present, in the same order.
std::string LoadReportJson(const load::Plan& plan, const load::LoadStats& stats);

// If the generator was the bottleneck, warns that the latencies are not the server's. Otherwise
// empty.
std::string LatenessText(const load::LoadStats& stats);

}  // namespace sluice::tools
