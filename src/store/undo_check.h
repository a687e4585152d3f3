// Takes back what another check was charged: the check that Store::Undo makes. Without counters if
// there is nothing to take back.
#pragma once

#include "store/owned_check.h"

namespace sluice {

class UndoCheck : public OwnedCheck {
 public:
  explicit UndoCheck(const StoreCheck& charged) : OwnedCheck(charged) {
    Keep([](const CounterCheck& counter) { return counter.charged; });
    demand.mode = Mode::kUndo;
  }
};

}  // namespace sluice
