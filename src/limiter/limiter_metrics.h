// Metrics of the limiter that do not depend on the rule.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/result.h"
#include "metrics/metrics_registry.h"
#include "store/store.h"

namespace sluice {

// What became of a lease that was to be settled. The numbers are those of the API.
enum class LeaseOutcome : std::uint8_t {
  kSettled = 1,
  kAlreadySettled = 2,
  kNotFound = 3,
  kQueued = 4,  // the store has not answered yet; the lease is settled later
};

class LimiterMetrics {
 public:
  // `metrics` must outlive this.
  explicit LimiterMetrics(MetricsRegistry& metrics);

  // From receiving the request to returning the answer; refused requests are not included.
  Histogram& check_duration;
  // From asking the store to its answer, or to its failure.
  Histogram& store_duration;
  // Charges and refunds that were lost for some counter, or perhaps lost, because the store failed.
  Counter& lost_writes;
  // Units of cost admitted without the store, by outcome.
  Counter& units_owed;      // to be charged when the store is back
  Counter& units_not_kept;  // there was no room to keep them
  Counter& units_unknown;   // the store may have counted them
  Counter& units_charged;   // the store counts them now
  // Leases of units, and what their settlements did.
  Counter& leases_taken;
  Counter& lease_units_returned;
  Counter& lease_units_charged;  // used beyond what was held
  Counter& lease_units_dropped;  // used beyond what the limit can hold

  void CountFailure(StoreFailure failure) const {
    store_failures_[static_cast<std::size_t>(failure)]->Increment();
  }
  void CountRefused(ErrorCode code) const;
  void Count(LeaseOutcome outcome) const;
  // Counts what a settlement of a lease of units has changed.
  void CountSettled(const StoreCheck& settlement) const;

 private:
  std::array<Counter*, kStoreFailures> store_failures_;  // by StoreFailure
  std::map<ErrorCode, Counter&> refused_;
  Counter& refused_otherwise_;
  std::array<Counter*, 4> settlements_;  // by LeaseOutcome, from 1
};

}  // namespace sluice
