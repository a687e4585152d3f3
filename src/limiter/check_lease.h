// The lease of one check. It covers the slots of all concurrency limits of the check, or the units
// of all limits of the check.
//
// One thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/check_request.h"
#include "limiter/fallback.h"
#include "limiter/lease_name.h"
#include "store/store.h"

namespace sluice {

class CheckLease {
 public:
  // For a kConsume: if `check` takes slots or `request` has a lease_ttl, gives the check a lease.
  // `limits` has one answer for each counter of the check. Fails if the caller may not take leases,
  // if a rule does not allow the ttl, or if the counters do not fit into a lease id. If the id of a
  // lease of units would be too long, removes the counters of the last shadow rules from `check`
  // and from `limits`.
  Result<void> Prepare(StoreCheck& check, const CheckRequest& request,
                       std::vector<LimitAnswer>& limits);

  // The lease that the admitted `check` has taken, if any. None if the caller may not take leases:
  // slots of shadow rules are then free when they expire. If this server granted the lease without
  // the store, the lease is added to the pending leases of `fallback`. `charges`:
  // FailurePolicy::added_charges(). REQUIRES: check.lease
  using AddedCharges = std::span<const std::optional<PendingCharges::Added>>;
  std::optional<LeaseAnswer> Name(const StoreCheck& check, std::span<const LimitAnswer> limits,
                                  AddedCharges charges, Fallback& fallback);

 private:
  LeaseName name_;
  bool may_lease_ = true;
};

}  // namespace sluice
