// A load as a command of the tool: `sluice bench`, and `sluice check --repeat`.
#pragma once

#include "base/result.h"
#include "load/plan.h"
#include "load/tally.h"

namespace sluice::tools {

// Runs `plan`, shows its progress on stderr, and prints the outcome on stdout, as `json` or as
// text. Ctrl-C ends it early. If it cannot start, prints why and returns the error.
Result<load::Tally> RunLoad(const load::Plan& plan, bool json);

}  // namespace sluice::tools
