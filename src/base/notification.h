// A one-time event that threads can wait for.
//
// Thread-safe. May be destroyed as soon as Wait has returned.
#pragma once

#include "base/mutex.h"

namespace sluice {

class Notification {
 public:
  void Notify() {
    const MutexLock lock(mutex_);
    notified_ = true;
    changed_.NotifyAll();
  }

  void Wait() {
    const MutexLock lock(mutex_);
    changed_.Wait(mutex_, [this]() SLUICE_REQUIRES(mutex_) { return notified_; });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool notified_ SLUICE_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice
