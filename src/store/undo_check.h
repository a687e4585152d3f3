// Undoes the charges, known or possible, of another check. Has no counters if there is nothing to
// undo.
#pragma once

#include "store/owned_check.h"

namespace sluice {

class UndoCheck : public OwnedCheck {
 public:
  enum class Scope {
    kCharged,  // all that the check is known to have been charged
    kLeases,   // the slots that its lease took or may have taken; can be repeated
  };

  UndoCheck(const StoreCheck& check, Scope scope) : OwnedCheck(check) {
    deadline = last_deadline = SteadyTime::max();
    in_order = false;
    demand.mode = scope == Scope::kCharged ? Mode::kUndo : Mode::kRelease;
    // A renewal takes no slots, so none are released, and the holder keeps its lease. A charge that
    // reports a lease to the store releases none either: it is repeated until its outcome is known.
    const Mode mode = check.demand.mode;
    const bool takes_lease = lease && mode != Mode::kRenew && mode != Mode::kCharge;
    std::erase_if(counters, [&](const CounterCheck& counter) {
      const bool took = takes_lease && std::holds_alternative<Concurrency>(*counter.limit);
      return scope == Scope::kCharged ? !counter.charged : !took;
    });
  }
};

}  // namespace sluice
