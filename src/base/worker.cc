#include "base/worker.h"

#include <utility>

namespace sluice {

Worker::Worker(std::size_t max_waiting)
    : max_waiting_(max_waiting), thread_("worker", [this] { Run(); }) {}

Worker::~Worker() { Stop(); }

bool Worker::Post(Task task) {
  const MutexLock lock(mutex_);
  if (stopping_ || tasks_.size() >= max_waiting_) return false;
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
  return true;
}

// Destructors of dropped tasks may call Post, so they run without the lock.
void Worker::Stop() {
  std::deque<Task> dropped;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    changed_.NotifyAll();
  }
  thread_.Join();
}

void Worker::Run() {
  while (true) {
    Task task;
    {
      const MutexLock lock(mutex_);
      changed_.Wait(mutex_,
                    [this]() SLUICE_REQUIRES(mutex_) { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace sluice
