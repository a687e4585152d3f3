// The lease of one check: one lease covers all of its concurrency limits.
//
// One thread.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/fallback.h"
#include "limiter/lease_name.h"
#include "store/store.h"

namespace sluice {

class CheckLease {
 public:
  // Gives `check`, which has none, a lease if it takes slots. Fails if the caller may not take
  // leases, or if the counters do not fit into a lease id.
  Result<void> Prepare(StoreCheck& check, bool may_lease);

  // The lease that the admitted `check` has taken, if any. `limits` are the answers to its
  // counters. A lease granted by this server is reported to `fallback`.
  std::optional<LeaseAnswer> Name(const StoreCheck& check, std::span<const LimitAnswer> limits,
                                  Fallback& fallback);

 private:
  LeaseName name_;  // its keys are those of counters
};

}  // namespace sluice
