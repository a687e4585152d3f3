#include "service/queue_helper.h"

namespace sluice {

void QueueHelper::OnServed(bool answered) {
  if (!answered) {
    // Written only when it changes, so that the threads do not fight for the cache line.
    if (wanted()) wanted_.store(false, std::memory_order_relaxed);
    if (streak_.load(std::memory_order_relaxed) > 0) streak_.store(0, std::memory_order_relaxed);
    return;
  }
  if (wanted()) return;
  const int streak = streak_.load(std::memory_order_relaxed) + 1;
  streak_.store(streak, std::memory_order_relaxed);
  if (streak < kStreak) return;
  streak_.store(0, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  wanted_.store(true, std::memory_order_relaxed);
  changed_.NotifyAll();
}

bool QueueHelper::WaitUntilWanted() {
  const MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() SLUICE_REQUIRES(mutex_) { return stopped_ || wanted(); });
  return !stopped_;
}

void QueueHelper::Stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

}  // namespace sluice
