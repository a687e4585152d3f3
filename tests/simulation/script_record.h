// Decides checks under a lease of units. The lease's records say what it has taken. The counterpart
// is scripts/lua/record.lua. Pure functions.
#pragma once

#include <vector>

#include "tests/simulation/script_decision.h"

namespace sluice::simulation {

// Writes the records of the check's lease, which holds `held`. If the lease holds nothing of the
// counters of a hash tag, that hash tag gets no record.
void Enter(const Check& check, const std::vector<Draft>& drafts, const std::vector<Held>& held,
           Records& records);

// Decides a check under a lease of units in any mode except kConsume and kPeek. Appends the numbers
// of the reply.
struct RecordedCheck {
  const Check& check;
  Planted planted = Planted::kNothing;
};
void DecideByRecords(const RecordedCheck& recorded, std::vector<Draft>& drafts, Records& records,
                     std::vector<double>& out);

}  // namespace sluice::simulation
