// The thread "worker". It runs tasks that would block an io thread, one after another.
//
// Post is thread-safe. All other functions are for the owner only.
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

  // `max_waiting`: the maximum number of queued tasks.
  explicit Worker(std::size_t max_waiting = 64);

  // Calls Stop.
  ~Worker();

  // Queues `task` for the worker's thread. If the queue is full or the worker is stopped, drops the
  // task and returns false.
  [[nodiscard]] bool Post(Task task) SLUICE_EXCLUDES(mutex_);

  // Drops the queued tasks and waits for the running task.
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
