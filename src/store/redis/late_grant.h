// Returns a grant that came late. Denials of earlier checks are outdated then, as after an undo.
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
    ReturnGrant();
    if (listener_ != nullptr) listener_->OnUndoStarted(*this);
  }

 private:
  void OnDecided() override {
    if (listener_ != nullptr) listener_->OnUndoEnded(*this);
  }

  StoreListener* const listener_;
};

}  // namespace sluice::redis
