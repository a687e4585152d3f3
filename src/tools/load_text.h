// What came of a run of checks, for people and for programs.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "tools/load_run.h"

namespace sluice::tools {

// "  p50 49 us  p90 89 us  …  max 98 us"
std::string QuantilesText(const load::LatencyHistogram& durations);

// One line, without its end: how far a run of `checks` is.
std::string ProgressText(const LoadTally& tally, std::uint64_t checks);

// Decisions, errors by code, time, rate, latencies, waits if there were any; several lines.
std::string LoadText(const LoadTally& tally);

// The same as one JSON object, its fields always there and always in this order.
std::string LoadJson(const LoadTally& tally);

// {"error":{"code":…,"message":…}}
std::string ErrorJson(const Error& error);

}  // namespace sluice::tools
