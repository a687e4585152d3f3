// Runs a load for `sluice bench` and `sluice check --repeat`.
#pragma once

#include "base/result.h"
#include "load/load_stats.h"
#include "load/plan.h"

namespace sluice::tools {

// Runs `plan`, shows its progress on stderr and prints the report on stdout, as JSON or as text.
// Ctrl-C ends the run early. Call it once per process. If the run cannot start, prints the error
// and returns it.
Result<load::LoadStats> RunLoad(const load::Plan& plan, bool json);

}  // namespace sluice::tools
