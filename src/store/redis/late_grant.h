// Returns a grant that came too late to be used. The listener is called as for an undo, because
// units become free: a check that was denied before may be allowed now.
//
// Loop thread only.
#pragma once

#include "store/owned_check.h"

namespace sluice::redis {

class LateGrant final : public OwnedCheck {
 public:
  // `listener` may be null.
  LateGrant(StoreListener* listener, const StoreCheck& check, const CounterCheck& counter)
      : OwnedCheck(check, counter, Mode::kPeek), listener_(listener) {
    CounterCheck& its = counters.front();
    demand = {.mode = Mode::kPeek};
    concerns_grants = true;
    its.units = 0;
    its.wanted = {};
    its.returned = {its.grant.generation, its.grant.units, its.grant.units};
    if (listener_ != nullptr) listener_->OnUndoStarted(*this);
  }

 private:
  void OnDecided() override {
    if (listener_ != nullptr) listener_->OnUndoEnded(*this);
  }

  StoreListener* const listener_;
};

}  // namespace sluice::redis
