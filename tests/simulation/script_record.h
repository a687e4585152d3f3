// Decisions that go by the records of leases of units. The twin of scripts/lua/record.lua. Pure
// functions.
#pragma once

#include <vector>

#include "tests/simulation/script_decision.h"

namespace sluice::simulation {

// Enters the records of a lease, which holds `held` of each counter. There is none where it
// concerns no counter.
void Enter(const Check& check, const std::vector<Draft>& drafts, const std::vector<Held>& held,
           Records& records);

// Any mode but kConsume of a check under a lease of units. Appends the numbers of the reply.
struct RecordedCheck {
  const Check& check;
  Planted planted = Planted::kNothing;
};
void DecideByRecords(const RecordedCheck& recorded, std::vector<Draft>& drafts, Records& records,
                     std::vector<double>& out);

}  // namespace sluice::simulation
