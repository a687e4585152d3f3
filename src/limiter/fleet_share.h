// This server's current share of every limit while the store is unavailable.
//
// Thread-safe.
#pragma once

#include "base/mutex.h"
#include "core/share.h"

namespace sluice {

class FleetShare {
 public:
  explicit FleetShare(const Share& share) : share_(share) {}

  Share Get() const {
    const MutexLock lock(mutex_);
    return share_;
  }
  void Set(const Share& share) {
    const MutexLock lock(mutex_);
    share_ = share;
  }

 private:
  mutable Mutex mutex_;
  Share share_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
