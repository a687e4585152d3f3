// The standard Health service: tells whether this server as a whole ("") or one of its services is
// serving. All of them are serving while the server is ready; after StopServing, none is.
//
// Thread-safe. Must outlive the servers that use its methods.
#pragma once

#include <atomic>
#include <string>
#include <unordered_set>
#include <vector>

#include "net/per_loop.h"
#include "rpc/method.h"

namespace sluice {

class HealthService {
 public:
  HealthService();
  ~HealthService();

  // Adds Check and Watch. Called once. These methods report on the services that `methods` has at
  // this time, on the Health service itself, and on `other_names`: further names that callers use.
  void AddTo(rpc::Methods& methods, const std::vector<std::string>& other_names = {});

  // Sets all services to SERVING or NOT_SERVING and notifies the watchers. At first, all services
  // are SERVING.
  void SetReady(bool ready);

  // Sets all services to NOT_SERVING permanently, and notifies the watchers.
  void StopServing();

  bool ready() const { return ready_.load(std::memory_order_acquire); }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  bool serving() const { return ready() && !stopping(); }

  // Whether the server has the service `name`.
  bool Has(const std::string& name) const { return names_.contains(name); }

 private:
  class WatchHandler;
  using Watchers = std::unordered_set<WatchHandler*>;

  void Notify();

  std::atomic<bool> ready_ = true;
  std::atomic<bool> stopping_ = false;
  std::unordered_set<std::string> names_;
  PerLoop<Watchers> watchers_;  // the handlers that watch a known service
};

}  // namespace sluice
