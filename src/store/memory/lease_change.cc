#include "store/memory/lease_change.h"

namespace sluice {

CoalescedChecks One(const StoreCheck& check, const CounterCheck& counter, std::int64_t granted) {
  return {.demand = check.DemandOf(counter),
          .lease = check.lease,
          .granted = granted,
          .now = check.decided_at};
}

bool KeepsHolding(const StoreCheck& check, const CounterCheck& counter, const CounterState& state) {
  const bool has_no_slots = !TakesLeases(*counter.limit) || counter.held == 0;
  if (check.leases_units && check.demand.mode == Mode::kRenew && has_no_slots) return true;
  return Admits(*counter.limit, state, One(check, counter, /*granted=*/0));
}

bool MayChange(const StoreCheck& check) {
  const Mode mode = check.demand.mode;
  if (mode == Mode::kRenew) return check.admitted;
  if (mode == Mode::kInspect || !check.leases_units) return mode != Mode::kInspect;
  return mode == Mode::kSettle ? check.settled == Settled::kSettled
                               : check.settled != Settled::kAlreadySettled;
}

// A renewal concerns only slots.
ChangeResult ChangeOne(const StoreCheck& check, const CounterCheck& counter, CounterState& state,
                       const Held& held) {
  CoalescedChecks checks = One(check, counter, /*granted=*/0);
  const Limit& limit = *counter.limit;
  if (check.demand.mode == Mode::kUndo) return sluice::Undo(limit, state, counter.before, checks);
  if (!check.leases_units || check.demand.mode == Mode::kCharge) {
    return Change(limit, state, checks);
  }
  if (check.demand.mode == Mode::kSettle) {
    checks.demand.units = counter.units;
    return sluice::Settle(limit, state, held, checks);
  }
  const bool renews = TakesLeases(limit) && counter.held > 0 && counter.verdict.admitted;
  return renews ? Change(limit, state, checks) : ChangeResult{.changed = false};
}

}  // namespace sluice
