// The operations of an algorithm on one counter. Most call the function of the same name in the
// limit's algorithm; the algorithm's header documents that function.
//
// REQUIRES everywhere: `state` is the alternative that belongs to `limit`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/algorithm/grant.h"
#include "core/algorithm/limit.h"

namespace sluice {

// Sets `state` to the state of a new counter.
WriteBack Open(const Limit& limit, CounterState& state, Time now);
WriteBack Advance(const Limit& limit, CounterState& state, Time now);
std::int64_t Grants(const Limit& limit, const CounterState& state, const CounterDemand& demand,
                    std::int64_t n);
Duration Lifetime(const Limit& limit, const CounterState& state, Time now);

// The state of a counter after a decision, as far as the reply of a store shows it.
struct SeenState {
  CounterSnapshot snapshot;  // remains valid if the rate of the limit changes
  Time reset_at;             // when no unit counts anymore
  Time at;                   // of the decision

  bool operator==(const SeenState&) const = default;
};

// The counter of LimitFor(limit, share), derived from `seen`: the last seen state of the counter of
// `limit`. Call Advance next.
CounterState Seed(const Limit& limit, const SeenState& seen, const Share& share);

// The initial state of a counter whose limit is from LimitForCharges. This state has no charges. If
// `seen` is the state of a fixed window, this state is in the same window.
CounterState Uncharged(const Limit& limit, const std::optional<SeenState>& seen, Time now);

// Changes `limit`, from LimitForCharges, to the rate of `other`, another limit of the same counter.
// The units in use stay the same. The time since the last change of `state` counts at the new rate,
// as in the store.
void ChangeRate(Limit& limit, CounterState& state, const Limit& other);

// The units in use, rounded up: counted, held, missing from a bucket, or in debt. A counter whose
// limit is from LimitForCharges starts with 0.
std::int64_t Used(const Limit& limit, const CounterState& state);

// The approximate bytes of memory that the state takes on the heap.
std::size_t MemoryOf(const Limit& limit, const CounterState& state);
// Whether a check that takes units may need more memory for the state.
bool MayGrow(const Limit& limit, const CounterState& state);

// The content of a counter that does not start as new. If the counter exists with another version,
// this content replaces it.
struct CounterSeed {
  CounterState state;  // to be advanced
  WriteBack keep = WriteBack::kNo;
  std::uint64_t version = 0;
};

// Coalesced checks: equal checks of which the first `granted` were granted by all enforced limits.
// Checks of kConsume and kPeek may be coalesced, and charges if MayCoalesceCharges. With the other
// modes, there is exactly one check.
struct CoalescedChecks {
  CounterDemand demand;
  std::optional<Lease> lease;  // if TakesLeases
  std::int64_t granted = 0;
  Time now;
};

// Takes the units of the granted checks. REQUIRES: the mode is kConsume.
void Take(const Limit& limit, CounterState& state, const CoalescedChecks& checks);

// Changes `snapshot` to the snapshot after one more check of `cost` units.
void Take(const Limit& limit, CounterSnapshot& snapshot, std::int64_t cost);

// Whether the counter admits a check of a mode other than kConsume and kPeek. For kCharge, returns
// whether a check of the same units would be admitted. For kRenew, returns whether the lease holds
// slots. Otherwise, returns true.
bool Admits(const Limit& limit, const CounterState& state, const CoalescedChecks& checks);

// Applies kCharge, kRefund, kRenew or kSettle. REQUIRES for kRenew: Admits returned true.
ChangeResult Change(const Limit& limit, CounterState& state, const CoalescedChecks& checks);

// Undoes a check of checks.demand.units that found the counter as `before` (see VerdictAt), or that
// took slots under checks.lease. If no other check followed, the counter is then as if the check
// had not happened. If other checks followed, the counter never has more units left than without
// the undone check. There is one exception: if an earlier check has been undone, too, a bucket may
// have more tokens. Without that earlier check, the bucket would have been full for some time, and
// a full bucket gains no tokens. Undo does not give back units that have already stopped counting.
ChangeResult Undo(const Limit& limit, CounterState& state, const CounterSnapshot& before,
                  const CoalescedChecks& checks);

// What a lease holds of one counter, according to the store's record.
struct Held {
  static constexpr std::int64_t kNothing = -1;

  std::int64_t units = kNothing;  // kNothing: the lease does not concern the counter; 0: it does,
                                  // but holds no units of it
  CounterSnapshot before{};       // see Undo
};

// Whether `state` or `snapshot` is of the limit's algorithm. A server's share of a bucket with
// `warmup` has another algorithm if it is 0.
bool IsOf(const Limit& limit, const CounterState& state);
bool IsOf(const Limit& limit, const CounterSnapshot& snapshot);

// Settles a lease that used checks.demand.units. If the lease holds more, gives back the
// difference, as Undo does, but only if RefundsInFull(limit). If it holds less, charges the
// difference. If the units are kAsTaken, does neither. If TakesLeases(limit), only releases the
// slots, whatever the units are. `stored` is the counter's state as stored; `state` is the same
// state, advanced. Afterward, `state` is the state to store. Advance it before any other use.
ChangeResult Settle(const Limit& limit, CounterState& state, const CounterState& stored,
                    const Held& held, const CoalescedChecks& checks);

// What a lease without a record holds of a counter: the checks.demand.units that were charged to
// the counter earlier. The earlier the charge was, the less a settlement gives back. Without a
// record, it is not known exactly when these units leave a sliding window. So Undo must not refund
// other units in their place.
Held HeldOfCharged(const Limit& limit, const CounterState& state, const CoalescedChecks& checks);

// Ends a grant that its holder returns. Returns whether the grant was still out. REQUIRES, here and
// for the next two functions: `state` was advanced.
bool TakeBack(const Limit& limit, CounterState& state, const GrantReturn& returned);

// Takes a grant; takes none if the algorithm has no grants.
Grant TakeGrant(const Limit& limit, CounterState& state, const GrantWish& wish);

// The grants that are out, even if the rule has no `prefetch`.
GrantsOut GrantsOutOf(const Limit& limit, const CounterState& state);

// The data needed to answer coalesced checks.
struct CounterReport {
  // For kConsume, kPeek and coalesced charges, the state before the checks. Otherwise the state
  // after the check.
  CounterSnapshot snapshot;
  // Only for modes other than kConsume and kPeek.
  bool admitted = false;
  std::int64_t dropped = 0;
};

// The report on the charge at `index` (from 0) of coalesced charges. `report` is the report on all
// of them. The snapshot of the result is the state after that charge. REQUIRES:
// MayCoalesceCharges(limit).
CounterReport ReportOfCharge(const Limit& limit, CounterReport report,
                             const CoalescedChecks& checks, std::int64_t index);

// The snapshot of a counter advanced to checks.now.
CounterSnapshot Summarize(const Limit& limit, const CounterState& state,
                          const CoalescedChecks& checks);

// The snapshot from the numbers of a script's reply.
CounterSnapshot SnapshotFromFields(const Limit& limit, const std::array<double, 3>& fields);
std::array<double, 3> FieldsOf(const CounterSnapshot& snapshot);

// The verdict of one limit for the check at `index` (from 0). If the check took its cost, the
// verdict shows the counter after the check; otherwise, it shows the counter as the check found it.
// Both stores answer through this function, so an answer depends neither on where a counter is
// stored nor on coalescing. `report` is the report on all coalesced checks. For kConsume and kPeek,
// its snapshot becomes the state that this check found.
Verdict VerdictAt(const Limit& limit, CounterReport& report, const CoalescedChecks& checks,
                  std::int64_t index);

}  // namespace sluice
