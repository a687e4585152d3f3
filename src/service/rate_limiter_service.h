// The RateLimiter service of the API: CheckLimit, CheckLimits, CheckLimitStream, RenewLease,
// ReleaseLease and SettleLease.
//
// Thread-safe. Must outlive the servers that use its methods.
#pragma once

#include <string>

#include "api/caller_access.h"
#include "limiter/limiter.h"
#include "net/per_loop.h"
#include "rpc/method.h"
#include "service/batched_check.h"
#include "service/check_limits_handler.h"

namespace sluice {

class RateLimiterService {
 public:
  // If `access` is null, every caller is admitted. Both must outlive the service.
  explicit RateLimiterService(Limiter& limiter, const CallerAccess* access = nullptr);

  void AddTo(rpc::Methods& methods);

  // Frees the memory of earlier batches that recent load has not needed, later, on the io threads.
  void TrimPools();

 private:
  // Shared by all calls of an io thread.
  struct Shared {
    Shared(net::Loop& loop, Limiter& limiter) : batches(loop), items(limiter) {}

    BatchQueue batches;
    BatchedCheckPool items;
    std::string response;  // used only during one Finish
  };

  Limiter& limiter_;
  const CallerAccess* const access_;
  PerLoop<Shared> shared_;
};

}  // namespace sluice
