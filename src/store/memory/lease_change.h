// What modes other than CONSUME and PEEK do to one counter. With a lease of units, the lease's
// record decides. The twin of decide_change in scripts/lua/decide.lua. Pure functions.
#pragma once

#include <cstdint>

#include "core/algorithm/counter.h"
#include "store/store.h"

namespace sluice {

// What `check` asks of its `counter`, as coalesced checks with a single check.
CoalescedChecks One(const StoreCheck& check, const CounterCheck& counter, std::int64_t granted);

// Whether the counter admits the check. For a renewal: whether the lease keeps what it holds of the
// counter.
bool KeepsHolding(const StoreCheck& check, const CounterCheck& counter, const CounterState& state);

// Whether any change is to be made. A settled lease does not change.
bool MayChange(const StoreCheck& check);

// Makes the change; `held` is what the lease holds of `counter`.
ChangeResult ChangeOne(const StoreCheck& check, const CounterCheck& counter, CounterState& state,
                       const Held& held);

}  // namespace sluice
