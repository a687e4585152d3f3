// Renews the leases of a client, each after a third of its ttl, on a separate thread.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "pending_calls.h"

namespace sluice {

class LeaseKeeper {
 public:
  // `calls` must outlive this object. Its owner must wait for it: a process that ends at once would
  // lose pending releases.
  explicit LeaseKeeper(PendingCalls& calls);
  ~LeaseKeeper();

  // Renews the lease until Release.
  void Add(const std::string& id, std::chrono::microseconds ttl);

  // Stops renewing the lease and asks the server to release it. Returns at once. If the request is
  // lost, the lease ends when its ttl has passed.
  void Release(const std::string& id);

 private:
  using Clock = std::chrono::steady_clock;

  struct Renewal {
    Clock::time_point due;
    std::chrono::microseconds period;
  };

  void Run();

  PendingCalls& calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Renewal> renewals_;  // by lease; guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::thread thread_;
};

}  // namespace sluice
