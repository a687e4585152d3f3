// The leases that this server granted while the store failed, and what the store is still to be
// told of them: once it is back, it counts their slots until they are released or expire.
//
// Thread-safe. Holds kMaxLeases; of others the store is not told.
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

  // Of a lease that is not known here, nothing.
  void Renewed(const LeaseId& id, SteadyTime expires);
  void Released(const LeaseId& id);

  // The counter was made as new: nobody holds slots of it.
  void Forget(std::string_view key);

  // What the store is to be told of one lease.
  struct Change {
    LeaseId id{};
    std::vector<std::string> keys;  // of the counters
    std::int64_t slots = 0;         // in each
    SteadyTime expires;
    bool released = false;  // else: held until it expires
  };

  // Takes out what the store is to be told next, oldest first, at most `most`.
  std::vector<Change> Take(std::size_t most, SteadyTime now);

  // Puts back what was taken out and the store did not take, or perhaps did not.
  void PutBack(const Change& change);

 private:
  struct Entry {
    Change lease;
    bool queued = false;
    bool told = false;  // the store may know of it
  };

  void Queue(Entry& entry) SLUICE_REQUIRES(mutex_);
  void EraseExpired(SteadyTime now) SLUICE_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<LeaseId, Entry> entries_ SLUICE_GUARDED_BY(mutex_);
  std::deque<LeaseId> queue_ SLUICE_GUARDED_BY(mutex_);  // some may be gone from entries_
  // When entries may have expired, earliest first; renewed ones expire later.
  using Expiry = std::pair<SteadyTime, LeaseId>;
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_
      SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
