// Takes back what another check was charged, or may have been. Without counters if there is nothing
// to take back.
#pragma once

#include "store/owned_check.h"

namespace sluice {

class UndoCheck : public OwnedCheck {
 public:
  enum class What {
    kCharged,  // all that the check is known to have been charged
    kLeases,   // the slots of its lease, whether it was granted them or not; may be repeated
  };

  UndoCheck(const StoreCheck& check, What what) : OwnedCheck(check) {
    deadline = last_deadline = SteadyTime::max();
    in_order = false;
    demand.mode = what == What::kCharged ? Mode::kUndo : Mode::kRelease;
    std::erase_if(counters, [&](const CounterCheck& counter) {
      // A renewal takes no slot, and its holder goes on.
      const bool takes = lease && check.demand.mode != Mode::kRenew;
      const bool holds = takes && std::holds_alternative<Concurrency>(*counter.limit);
      return what == What::kCharged ? !counter.charged : !holds;
    });
  }
};

}  // namespace sluice
