// One schedule of the simulation: servers, callers, rules and faults are generated from a seed, and
// the promises are checked at the end.
#pragma once

#include <cstdint>

#include "tests/simulation/planted.h"
#include "tests/simulation/report.h"

namespace sluice::simulation {

// Runs the schedule of `seed` to its end. `planted`: a fault to plant.
Report RunSchedule(std::uint64_t seed, Planted planted = Planted::kNothing);

}  // namespace sluice::simulation
