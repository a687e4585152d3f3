// A mutex for Clang's -Wthread-safety: data is annotated with its mutex (SLUICE_GUARDED_BY), and
// Clang checks each access at compile time. Other compilers ignore the annotations.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define SLUICE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define SLUICE_THREAD_ANNOTATION(x)
#endif

#define SLUICE_GUARDED_BY(x) SLUICE_THREAD_ANNOTATION(guarded_by(x))
#define SLUICE_REQUIRES(...) SLUICE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define SLUICE_EXCLUDES(...) SLUICE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// For functions that rely on a lock object that the analysis cannot follow.
#define SLUICE_NO_THREAD_SAFETY_ANALYSIS SLUICE_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace sluice {

class SLUICE_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() SLUICE_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() SLUICE_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class SLUICE_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SLUICE_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() SLUICE_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for Mutex. REQUIRES: the caller of Wait or WaitUntil holds the mutex.
class CondVar {
 public:
  void NotifyAll() { condition_.notify_all(); }

  template <typename Predicate>
  void Wait(Mutex& mutex, Predicate done) SLUICE_REQUIRES(mutex) {
    condition_.wait(mutex, done);
  }

  // Returns false if `done` is still false at `deadline`.
  template <typename TimePoint, typename Predicate>
  bool WaitUntil(Mutex& mutex, TimePoint deadline, Predicate done) SLUICE_REQUIRES(mutex) {
    return condition_.wait_until(mutex, deadline, done);
  }

 private:
  std::condition_variable_any condition_;
};

}  // namespace sluice
