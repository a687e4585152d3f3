// The thread "worker", for what takes too long for an io thread: one task after the other.
//
// Post is thread-safe; the rest is for one owner.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>

#include "base/mutex.h"
#include "base/thread.h"

namespace sluice {

class Worker {
 public:
  using Task = std::function<void()>;

  // At most so many tasks wait.
  explicit Worker(std::size_t max_waiting = 64);

  // As Stop.
  ~Worker();

  // Runs `task` on the worker's thread, after those that were posted before. False, and the task is
  // dropped, if too many wait or the worker has been stopped.
  [[nodiscard]] bool Post(Task task) SLUICE_EXCLUDES(mutex_);

  // Waits for the task under way; drops those that wait.
  void Stop() SLUICE_EXCLUDES(mutex_);

 private:
  void Run() SLUICE_EXCLUDES(mutex_);

  const std::size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ SLUICE_GUARDED_BY(mutex_);
  bool stopping_ SLUICE_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace sluice
