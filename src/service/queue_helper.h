// Says whether a completion queue is in need of a second thread, which waits here while it is not.
//
// A call that the store answers later leaves its queue's thread with little to do: a second one
// would only fight with the first, and with the store's, for the locks of gRPC's connections (a
// seventh of the throughput on two cores). Calls that are answered at once, by what is known here,
// keep the thread busy as long as they last, and a second one nearly doubles their number.
//
// Thread-safe.
#pragma once

#include <atomic>

#include "base/mutex.h"

namespace sluice {

class QueueHelper {
 public:
  // For the queue's threads: one has served a call, which has its answer or is left to the store.
  void OnServed(bool answered);

  // Whether the second thread should go on.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }

  // For the second thread. False if it should end.
  bool WaitUntilWanted();

  void Stop();

 private:
  // So many calls in a row answered at once are no accident.
  static constexpr int kStreak = 64;

  // Only hints: that two threads may disagree about them for a while does no harm.
  std::atomic<bool> wanted_ = false;
  std::atomic<int> streak_ = 0;

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ SLUICE_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice
