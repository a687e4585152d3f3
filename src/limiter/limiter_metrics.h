// What the limiter counts and times of its calls, whatever rule decides them.
//
// Thread-safe.
#pragma once

#include <array>

#include "base/result.h"
#include "metrics/metrics_registry.h"
#include "store/store.h"

namespace sluice {

class LimiterMetrics {
 public:
  // `metrics` must outlive this.
  explicit LimiterMetrics(MetricsRegistry& metrics);

  // From the request on the wire to the answer handed back; refused requests are not timed.
  Histogram& check_duration;
  // From asking the store to its answer, or to its failure.
  Histogram& store_duration;
  // Charges and refunds that a failing store did not get and no local counter took.
  Counter& lost_writes;
  // What passed without the store, in units of cost, and what becomes of it.
  Counter& units_owed;      // kept, to be charged when the store is back
  Counter& units_not_kept;  // no room to keep it
  Counter& units_unknown;   // the store may have counted it
  Counter& units_charged;   // the store counts it now

  void CountFailure(StoreFailure failure) const {
    store_failures_[static_cast<std::size_t>(failure)]->Increment();
  }
  void CountRefused(ErrorCode code) const;

 private:
  std::array<Counter*, kStoreFailures> store_failures_;  // by StoreFailure
  Counter& invalid_;
  Counter& unavailable_;
  Counter& deadline_exceeded_;
  Counter& other_;
};

}  // namespace sluice
