// The RateLimiter service of the API: CheckLimit, CheckLimits, CheckLimitStream, RenewLease and
// ReleaseLease.
//
// Thread-safe. Must outlive the servers that have its methods.
#pragma once

#include <memory>
#include <string>

#include "limiter/limiter.h"
#include "rpc/method.h"
#include "service/check_item_pool.h"
#include "service/per_loop.h"

namespace sluice {

class RateLimiterService {
 public:
  // `limiter` must outlive the service.
  explicit RateLimiterService(Limiter& limiter);

  void AddTo(rpc::Methods& methods);

 private:
  // What all calls of an io thread share.
  struct Shared {
    explicit Shared(Limiter& limiter) : items(limiter) {}

    CheckItemPool items;
    std::string response;  // for the time of one Finish
  };

  Limiter& limiter_;
  PerLoop<Shared> shared_;
};

}  // namespace sluice
