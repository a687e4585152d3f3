// What takes the place of a check that was sent to the store and has failed, until its reply comes:
// a copy that owns what its owner may now throw away.
//
// When the reply comes it has its verdicts, as any check would; leases it was granted are released,
// other grants are taken back if `undo` says so, and LateAnswers is told.
#pragma once

#include "store/owned_check.h"

namespace sluice {

class LateCheck : public OwnedCheck {
 public:
  explicit LateCheck(const StoreCheck& check) : OwnedCheck(check) {
    deadline = last_deadline = SteadyTime::max();
    is_late = true;
  }
  ~LateCheck() override {
    if (held_by != nullptr) *held_by = nullptr;
  }

  // What the caller was answered is no admission: whatever the store grants is to be taken back.
  // Set by the owner of the check, during OnDecided.
  bool undo = false;

  // A pointer to this, to be null when this is gone; or null.
  LateCheck** held_by = nullptr;
};

}  // namespace sluice
