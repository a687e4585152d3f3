// One renewal or release of a lease, from a door to its answer. A door derives from LeaseCall,
// calls Start, and hears the answer in OnLease. May be started again from then on.
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

  // Does it and calls OnLease exactly once, on the same thread, possibly before Start
  // returns. `lease_id` must live until then; `caller_deadline` is when the caller gives up.
  void Start(Action action, std::string_view lease_id, SteadyTime caller_deadline);

 private:
  // How long the lease holds from now on; zero for a released one, whether it was held or not.
  // kInvalidArgument: the id is none; kNotFound: a lease to be renewed has expired, and is never
  // taken again; kUnavailable: the store failed; kDeadlineExceeded: the caller's time ended. After
  // these two the lease holds until its time is over.
  virtual void OnLease(const Result<Duration>& ttl) = 0;

  void OnDecided() override;

  // The store will be told what became of a lease that this server granted while it failed.
  void TellLater() const;

  Limiter& limiter_;
  // Names the algorithm; a lease brings its own ttl, and is bound by no limit any more.
  const Limit concurrency_ = Concurrency{};
  bool by_fallback_ = false;  // the lease was granted while the store failed
};

}  // namespace sluice
