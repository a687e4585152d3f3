// The operations of an algorithm on one counter, whatever the algorithm: each picks the alternative
// of `limit` and calls its function of the same name, where the meaning is told.
//
// REQUIRES everywhere: `state` is the alternative that belongs to `limit`.
#pragma once

#include <cstdint>
#include <optional>

#include "core/limit.h"

namespace sluice {

Keep Open(const Limit& limit, CounterState& state, Time now);
Keep Advance(const Limit& limit, CounterState& state, Time now);
std::int64_t Grants(const Limit& limit, const CounterState& state, const Demand& demand,
                    std::int64_t n);
Duration Lifetime(const Limit& limit, const CounterState& state, Time now);
// The counter of LimitFor(limit, share) after one of `limit` was seen so; to be advanced.
CounterState Seed(const Limit& limit, const SeenState& seen, const Share& share);
// The units that keep a counter from being as good as new, rounded up.
std::int64_t Used(const Limit& limit, const CounterState& state);

// What a counter begins with where it is not new. Of one that goes on with another version, this is
// the newer.
struct CounterSeed {
  CounterState state;  // to be advanced
  Keep keep = Keep::kNo;
  std::uint64_t version = 0;
};

// A run of equal checks, of which the first `granted` were granted by all limits that had to.
// Modes but kConsume and kPeek come in runs of one.
struct Run {
  Demand demand;
  std::optional<Lease> lease;  // for Concurrency
  std::int64_t granted = 0;
  Time now;
};

// Takes what a run of Mode::kConsume takes.
void Take(const Limit& limit, CounterState& state, const Run& run);

// Whether the counter lets a run of another mode happen: a charge is told whether it would have
// been admitted, a lease is renewed only if it holds.
bool Admits(const Limit& limit, const CounterState& state, const Run& run);

// Makes a change: what kCharge, kRefund, kRenew and kRelease do. REQUIRES for kRenew: it Admits.
Changed Change(const Limit& limit, CounterState& state, const Run& run);

// Takes back what a check of run.demand.cost was granted that met `before` (see JudgeNth), or took
// under run.lease. If nobody else came since, the counter is as if the check had not come; else it
// never holds more than that. Units that have left it by now are not taken back again.
Changed Undo(const Limit& limit, CounterState& state, const CounterSnapshot& before,
             const Run& run);

// What the answers to a run need to know of a counter.
struct CounterReport {
  // For kConsume and kPeek: from before the run. For the other modes: from after it.
  CounterSnapshot snapshot;
  // Of the other modes.
  bool admitted = false;
  std::int64_t dropped = 0;
};

// The snapshot of a counter advanced to run.now.
CounterSnapshot Summarise(const Limit& limit, const CounterState& state, const Run& run);

// A snapshot out of the numbers of a script's reply.
CounterSnapshot SnapshotFromFields(const Limit& limit, const std::array<double, 3>& fields);
std::array<double, 3> FieldsOf(const CounterSnapshot& snapshot);

// What the check at `index` (from 0) of a run hears from one limit. Values stand after the check's
// own decision if it took its cost, else before it. Both stores answer through this, so an answer
// depends neither on where a counter lives nor on whether a check was decided alone or together
// with others. `report` is of the run; its snapshot is then what this check itself met.
Verdict JudgeNth(const Limit& limit, CounterReport& report, const Run& run, std::int64_t index);

}  // namespace sluice
