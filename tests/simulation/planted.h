// Faults that no correct server has, for tests of the simulation itself.
#pragma once

namespace sluice::simulation {

enum class Planted {
  kNothing,
  kRepliesSwapped,    // Redis answers some calls with the reply to an earlier call
  kGrantsUncounted,   // Redis forgets what some calls changed
  kCallsRunTwice,     // Redis runs some calls twice
  kStatesMisread,     // if the limit of a counter changes, the counter starts again
  kKeysExpireEarly,   // a check that changes nothing does not prolong the life of its keys
  kCountersByPlace,   // counters are named by the positions of their limits
  kUndoneLearned,     // denials are remembered although their cause was undone
  kGracePeriodsLate,  // grace periods start too late: at the first decision after an outage
  kSettledTwice,      // Redis forgets that a lease was settled
  kSettledByRefund,   // a settlement also gives back units that have already left the counters
  kRecordsLeft,       // records of leases do not move with their slot
  kLateLeasesKept,    // a lease is not settled with 0 if its answer was late or lost
  kBoundsKept,        // a limit that follows the load keeps its bounds when the rules change
  kExpiryUnlearned,   // a limit that follows the load does not learn from slots that expire
  // Faults of prefetched units:
  kPocketsRefilled,        // a bucket refills as if servers held no units
  kPocketsUnseen,          // the same, but only in checks of rules without prefetch
  kLateReturnsTaken,       // a return whose grant has ended takes back units of another grant
  kReturnsCountedTwice,    // each return gives its units back twice
  kGrantsOnWrongClock,     // a grant's life is measured by a clock that stops during a stall
  kGrantsLeft,             // units that servers hold do not move with their counter's slot
  kDenialsOutliveReturns,  // one server remembers denials as if no other server could return units
};

// Whether only busy schedules can show the fault.
inline bool IsOfGrants(Planted planted) { return planted >= Planted::kPocketsRefilled; }

}  // namespace sluice::simulation
