// Takes back what another check was charged, or may have been. Without counters if there is nothing
// to take back.
#pragma once

#include "store/owned_check.h"

namespace sluice {

class UndoCheck : public OwnedCheck {
 public:
  enum class What {
    kCharged,  // all that the check is known to have been charged
    kLeases,   // the slots that it took, or may have taken, for its lease; may be repeated
  };

  UndoCheck(const StoreCheck& check, What what) : OwnedCheck(check) {
    deadline = last_deadline = SteadyTime::max();
    in_order = false;
    demand.mode = what == What::kCharged ? Mode::kUndo : Mode::kRelease;
    // A renewal takes no slots, so none are released: the holder keeps its lease.
    const bool takes_lease = lease && check.demand.mode != Mode::kRenew;
    std::erase_if(counters, [&](const CounterCheck& counter) {
      const bool took = takes_lease && std::holds_alternative<Concurrency>(*counter.limit);
      return what == What::kCharged ? !counter.charged : !took;
    });
  }
};

}  // namespace sluice
