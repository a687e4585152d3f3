// The operations of an algorithm on one counter, whatever the algorithm: each picks the alternative
// of `limit` and calls its function of the same name, where the meaning is told.
//
// REQUIRES everywhere: `state` is the alternative that belongs to `limit`.
#pragma once

#include <cstdint>

#include "core/limit.h"

namespace sluice {

Keep Open(const Limit& limit, CounterState& state, Time now);
Keep Advance(const Limit& limit, CounterState& state, Time now);
std::int64_t Grants(const Limit& limit, const CounterState& state, std::int64_t cost,
                    std::int64_t n);
void Take(const Limit& limit, CounterState& state, std::int64_t cost, std::int64_t times);
Duration Lifetime(const Limit& limit, const CounterState& state, Time now);

// A run of equal checks, of which the first `granted` were granted by all limits that had to.
struct Run {
  std::int64_t cost = 1;
  Mode mode = Mode::kConsume;
  std::int64_t granted = 0;
  Time now;
};

// What the answers to `run` need to know of a counter whose state before it is `state`, advanced to
// run.now.
CounterSnapshot Summarise(const Limit& limit, const CounterState& state, const Run& run);

// What the check at `index` (from 0) of a run hears from one limit. `before` was summarised for the
// run. Values stand after the check's own decision if it was granted, else before it. Both stores
// answer through this, so an answer depends neither on where a counter lives nor on whether a check
// was decided alone or together with others.
Verdict JudgeNth(const Limit& limit, CounterSnapshot before, const Run& run, std::int64_t index);

}  // namespace sluice
