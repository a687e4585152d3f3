// Replaces a check that was sent to the store and has failed, until its reply arrives: a copy that
// owns the data that the owner of the check may free.
//
// When the reply arrives, it gets its verdicts like any check. Leases that it was granted are
// released, other grants are undone if `undo` is set, and StoreListener is notified.
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
    if (watcher != nullptr) watcher->OnLateEnd(*this);
  }

  // The check was not admitted: undo whatever the store grants. Set by the owner of the check,
  // during OnDecided.
  bool undo = false;

  // Notified when the reply has arrived, or when it is certain that none will. May be null.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // `late` is valid until OnLateEnd returns.
    virtual void OnLateEnd(const LateCheck& late) = 0;
  };
  Watcher* watcher = nullptr;
};

}  // namespace sluice
