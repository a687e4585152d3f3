// The standard Health service: whether this server serves, as a whole ("") or one of its services.
// It does until it is told to stop.
//
// Thread-safe. Must outlive the servers that have its methods.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>

#include "rpc/method.h"
#include "service/per_loop.h"

namespace sluice {

class HealthWatchHandler;

class HealthService {
 public:
  using Names = std::unordered_set<std::string>;
  using Watchers = std::unordered_set<HealthWatchHandler*>;

  HealthService();
  ~HealthService();

  // Adds Check and Watch. They know the services of `methods` as it is then, and their own.
  void AddTo(rpc::Methods& methods);

  // Everything is NOT_SERVING from now on; watchers are told.
  void StopServing();

  bool serving() const { return serving_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> serving_ = true;
  PerLoop<Watchers> watchers_;  // those whose call is open
};

}  // namespace sluice
