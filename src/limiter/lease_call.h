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

  void AskStore();
  bool MayNotBeReportedYet() const;

  // After a change in this server's memory: queues it for the store. Returns whether this server
  // granted the lease, as far as it is known: any lease can be released.
  bool IsOfThisServer() const;

  Limiter& limiter_;
  bool by_fallback_ = false;       // this server's memory is asked
  bool asks_for_another_ = false;  // the store is asked for a lease that another server granted
};

}  // namespace sluice
