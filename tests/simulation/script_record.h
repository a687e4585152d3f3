// Decisions by the records of leases of units. The counterpart is scripts/lua/record.lua. Pure
// functions.
#pragma once

#include <vector>

#include "tests/simulation/script_decision.h"

namespace sluice::simulation {

// Enters the records of a lease, which holds `held` of each counter. Hash tags without a counter of
// the lease get no record.
void Enter(const Check& check, const std::vector<Draft>& drafts, const std::vector<Held>& held,
           Records& records);

// Decides a check under a lease of units in any mode except kConsume. Appends the numbers of the
// reply.
struct RecordedCheck {
  const Check& check;
  Planted planted = Planted::kNothing;
};
void DecideByRecords(const RecordedCheck& recorded, std::vector<Draft>& drafts, Records& records,
                     std::vector<double>& out);

}  // namespace sluice::simulation
