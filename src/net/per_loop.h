// State shared by the calls of one io thread: one T per loop, created on first use.
//
// Thread-safe; each T is used only by its loop's thread. Must outlive the handlers that use a T.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "net/loop.h"

namespace sluice {

template <typename T>
class PerLoop {
 public:
  using Make = std::function<std::shared_ptr<T>(net::Loop&)>;

  explicit PerLoop(Make make) : make_(std::move(make)) {}

  T& For(net::Loop& loop) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::shared_ptr<T>& made = made_[&loop];
    if (made == nullptr) made = make_(loop);
    return *made;
  }

  // Posts `task` for each existing T to the T's loop. The tasks never run inside this call.
  void PostToEach(const std::function<void(T&)>& task) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (const auto& [loop, made] : made_) {
      loop->Post([made = made, task] { task(*made); });
    }
  }

 private:
  const Make make_;
  Mutex mutex_;
  std::unordered_map<net::Loop*, std::shared_ptr<T>> made_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
