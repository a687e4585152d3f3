// From the state of a counter before a run of equal checks to what each of them hears. Both stores
// answer through this, so an answer cannot depend on where a counter lives or on whether a check
// was decided alone or together with others.
#pragma once

#include <cstdint>

#include "core/limit.h"

namespace sluice {

// A run of `n` equal checks, of which the first `granted` were granted by all limits that had to.
struct Run {
  std::int64_t cost = 1;
  Mode mode = Mode::kConsume;
  std::int64_t granted = 0;
  Time now;
};

// What the check at `index` (from 0) of a run hears from one limit. `before` is the state of the
// counter before the run, advanced to run.now. Values stand after the check's own decision if it
// was granted, else before it.
Verdict JudgeNth(const Limit& limit, const CounterState& before, const Run& run,
                 std::int64_t index);

}  // namespace sluice
