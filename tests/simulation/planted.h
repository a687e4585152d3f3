// Faults that no correct server has, for tests of the simulation itself.
#pragma once

namespace sluice::simulation {

enum class Planted {
  kNothing,
  kRepliesSwapped,    // Redis sends the replies to two calls in the wrong order
  kGrantsUncounted,   // Redis forgets the grants of some calls
  kCallsRunTwice,     // Redis runs some calls twice
  kStatesMisread,     // after a change of its limit, a counter is new
  kKeysExpireEarly,   // a key lives as its last change requires, whatever later checks require
  kCountersByPlace,   // counters are named by the places of their limits in the rule
  kUndoneLearned,     // denials are remembered although the store has undone what caused them
  kGracePeriodsLate,  // they start at the first decision after an outage
};

}  // namespace sluice::simulation
