// One renewal or release of a lease. A front end derives from LeaseCall, calls Start, and receives
// the answer in OnLease. May be started again from then on.
#pragma once

#include <string_view>

#include "base/result.h"
#include "limiter/limiter.h"
#include "store/store.h"

namespace sluice {

class LeaseCall : private StoreCheck {
 public:
  enum class Action { kRenew, kRelease };

  explicit LeaseCall(Limiter& limiter) : limiter_(limiter) {}

  // Runs the action and calls OnLease exactly once, on the same thread, possibly before Start
  // returns. `lease_id` must live until then; `caller_deadline` is the caller's deadline.
  void Start(Action action, std::string_view lease_id, SteadyTime caller_deadline);

 private:
  // The remaining ttl of the lease; zero after a release, whether it was held or not. Errors:
  // kInvalidArgument: malformed id. kNotFound: the lease to renew has expired, and cannot be taken
  // again. kUnavailable: the store failed. kDeadlineExceeded: the caller's deadline passed. After
  // the last two the lease is held until it expires.
  virtual void OnLease(const Result<Duration>& ttl) = 0;

  void OnDecided() override;

  // Queues the change of a lease that this server granted while the store failed.
  void ReportLater() const;

  Limiter& limiter_;
  // Only selects the algorithm. The lease contains its ttl, and no limit applies to it.
  const Limit concurrency_ = Concurrency{};
  bool by_fallback_ = false;  // the lease was granted while the store failed
};

}  // namespace sluice
