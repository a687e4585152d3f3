// What the modes that are neither CONSUME nor PEEK do to one counter. With a lease of units, it
// goes by the lease's record. The twin of decide_change in scripts/lua/decide.lua. Pure functions.
#pragma once

#include <cstdint>

#include "core/algorithm/counter.h"
#include "store/store.h"

namespace sluice {

// What `check` asks of its `counter`, as coalesced checks of which there is one.
CoalescedChecks One(const StoreCheck& check, const CounterCheck& counter, std::int64_t granted);

// Whether the counter admits the check. A renewal: whether the lease keeps what it holds of it.
bool KeepsHolding(const StoreCheck& check, const CounterCheck& counter, const CounterState& state);

// Whether any change is to be made. A lease that was settled stays so.
bool MayChange(const StoreCheck& check);

// Makes the change; `held` is what the lease holds of `counter`.
ChangeResult ChangeOne(const StoreCheck& check, const CounterCheck& counter, CounterState& state,
                       const Held& held);

}  // namespace sluice
