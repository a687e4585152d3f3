// Leases that this server granted while the store failed, and the changes not yet reported to the
// store. Once reported, the store counts their slots until they are released or expire.
//
// Thread-safe. Holds kMaxLeases; further leases are not reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "core/lease.h"

namespace sluice {

class PendingLeases {
 public:
  static constexpr std::size_t kMaxLeases = 65'536;

  // What a lease holds of one counter.
  struct Slots {
    std::string key;
    std::int64_t count = 0;

    bool operator==(const Slots&) const = default;
  };

  void Granted(const LeaseId& id, std::vector<Slots> slots, SteadyTime expires);

  // Ignores an unknown lease.
  void Renewed(const LeaseId& id, SteadyTime expires);
  // Returns whether the lease is known.
  bool Released(const LeaseId& id);

  // The counter was reset: no slots of it are held.
  void Forget(std::string_view key);

  // A change of one lease to report to the store.
  struct Change {
    LeaseId id{};
    std::vector<Slots> slots;
    SteadyTime expires;
    bool released = false;  // otherwise held until it expires
  };

  bool HasChanges() SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return !queue_.empty();
  }

  // Removes and returns at most `most` changes to report, oldest first.
  std::vector<Change> Take(std::size_t most, SteadyTime now);

  // Returns a change that the store did not apply, or may not have applied.
  void PutBack(const Change& change);

 private:
  struct Entry {
    Change lease;
    std::uint64_t place = 0;  // in queue_; 0: not queued
    SteadyTime expiry;        // in expiries_: a renewed lease expires later
    bool reported = false;    // reported; the store may know of it
  };
  using Entries = std::map<LeaseId, Entry>;

  void Add(Change lease, bool reported) SLUICE_REQUIRES(mutex_);
  void Queue(Entry& entry) SLUICE_REQUIRES(mutex_);
  Entries::iterator Erase(Entries::iterator at) SLUICE_REQUIRES(mutex_);
  void EraseExpired(SteadyTime now) SLUICE_REQUIRES(mutex_);

  Mutex mutex_;
  Entries entries_ SLUICE_GUARDED_BY(mutex_);
  // Both hold ids of entries_ only, each at most once.
  std::map<std::uint64_t, LeaseId> queue_ SLUICE_GUARDED_BY(mutex_);  // by place, oldest first
  std::set<std::pair<SteadyTime, LeaseId>> expiries_ SLUICE_GUARDED_BY(mutex_);
  std::uint64_t next_place_ SLUICE_GUARDED_BY(mutex_) = 1;
};

}  // namespace sluice
