// Leases that this server granted while the store failed, and the changes not yet reported to the
// store. Once reported, the store counts their slots until they are released or expire.
//
// Thread-safe. Holds kMaxLeases; further leases are not reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "core/lease.h"

namespace sluice {

class FallbackLeases {
 public:
  static constexpr std::size_t kMaxLeases = 65'536;

  void Granted(const LeaseId& id, std::span<const std::string_view> keys, std::int64_t slots,
               SteadyTime expires);

  // Ignores an unknown lease.
  void Renewed(const LeaseId& id, SteadyTime expires);
  void Released(const LeaseId& id);

  // The counter was reset: no slots of it are held.
  void Forget(std::string_view key);

  // A change of one lease to report to the store.
  struct Change {
    LeaseId id{};
    std::vector<std::string> keys;  // of the counters
    std::int64_t slots = 0;         // in each
    SteadyTime expires;
    bool released = false;  // otherwise held until it expires
  };

  // Removes and returns at most `most` changes to report, oldest first.
  std::vector<Change> Take(std::size_t most, SteadyTime now);

  // Returns a change that the store did not apply, or may not have applied.
  void PutBack(const Change& change);

 private:
  struct Entry {
    Change lease;
    bool queued = false;
    bool told = false;  // reported; the store may know of it
  };

  void Queue(Entry& entry) SLUICE_REQUIRES(mutex_);
  void EraseExpired(SteadyTime now) SLUICE_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<LeaseId, Entry> entries_ SLUICE_GUARDED_BY(mutex_);
  std::deque<LeaseId> queue_ SLUICE_GUARDED_BY(mutex_);  // may hold ids no longer in entries_
  // When entries may expire, earliest first; renewed leases expire later.
  using Expiry = std::pair<SteadyTime, LeaseId>;
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_
      SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
