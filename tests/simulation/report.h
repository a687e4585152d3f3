// The outcome of a schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice::simulation {

struct Report {
  std::vector<std::string> broken;  // broken promises, each with the values found
  // For a summary of many schedules.
  std::int64_t calls = 0;
  std::int64_t answers = 0;
  std::int64_t admitted_by_store = 0;  // grants included
  std::int64_t admitted_by_grant = 0;
  std::int64_t admitted_by_fallback = 0;
  std::int64_t denied = 0;
  std::int64_t denied_by_cache = 0;
  std::int64_t errors = 0;
  std::int64_t leases = 0;  // of units
  std::int64_t settled = 0;
  std::int64_t queued = 0;      // settlements
  std::int64_t unanswered = 0;  // canceled, or the connection was cut
  std::int64_t faults = 0;
  std::int64_t failovers = 0;
  std::int64_t crashes = 0;  // of servers
  std::int64_t moved_slots = 0;
  std::int64_t resets = 0;
  std::int64_t reloads = 0;
  Duration slowest{};   // answer, without the time of the network and of stalls
  std::string history;  // every outcome, so that two runs can be compared
};

}  // namespace sluice::simulation
