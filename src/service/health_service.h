// The standard Health service: whether this server, as a whole ("") or one of its services, is
// serving. It is until StopServing.
//
// Thread-safe. Must outlive the servers that use its methods.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "net/per_loop.h"
#include "rpc/method.h"

namespace sluice {

class HealthWatchHandler;

class HealthService {
 public:
  using Names = std::unordered_set<std::string>;
  using Watchers = std::unordered_set<HealthWatchHandler*>;

  HealthService();
  ~HealthService();

  // Adds Check and Watch. They report on the services in `methods` at this time, on their own, and
  // on `other_names`, which callers also use.
  void AddTo(rpc::Methods& methods, const std::vector<std::string>& other_names = {});

  // Sets all services to NOT_SERVING and notifies the watchers.
  void StopServing();

  bool serving() const { return serving_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> serving_ = true;
  PerLoop<Watchers> watchers_;  // those with an open call
};

}  // namespace sluice
