// Leases that this server granted while the store failed, and their changes that were not yet
// reported to the store. Once a lease is reported, the store counts its slots until the lease is
// released or expires, and settles its units.
//
// Thread-safe. Holds at most kMaxLeases; further leases are not reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "core/algorithm/limit.h"
#include "core/lease.h"
#include "limiter/pending_charges.h"

namespace sluice {

class PendingLeases {
 public:
  static constexpr std::size_t kMaxLeases = 65'536;

  // What a lease holds of one counter.
  struct Held {
    std::string key;
    std::int64_t count = 0;  // or sluice::Held::kNothing
    // Set for a lease of units, which lists all of its counters. Absent for slots.
    std::optional<Limit> limit = std::nullopt;
    std::uint16_t group = 0;
    // The pending charge to which the units were added. Absent if `count` is a number of slots, or
    // 0.
    std::optional<PendingCharges::Added> added = std::nullopt;
    std::int64_t used = kAsTaken;  // units; known once the lease is settled
  };

  // A change of one lease, to be reported to the store.
  struct Change {
    LeaseId id{};
    std::vector<Held> held;
    SteadyTime expires;
    bool units = false;     // a lease of units
    bool released = false;  // or settled; otherwise held until it expires
    bool renewed = false;   // lease of units: the store has its record already
  };

  // Adds a lease. If it is already `released`, it is first reported, and then settled with the
  // `used` units.
  void Granted(Change lease);

  // Ignores an unknown lease.
  void Renewed(const LeaseId& id, SteadyTime expires);
  // Returns whether the lease is known.
  bool Released(const LeaseId& id);

  // Removes and returns a lease of units that was not reported, to be settled without the store.
  // Empty if there is no such lease.
  std::optional<Change> Withdraw(const LeaseId& id);
  // The lease was settled with the units `used`, in the order of `held`: queues this change for the
  // store. Returns false if the lease is unknown.
  bool Settle(const LeaseId& id, const std::vector<std::int64_t>& used);

  // Unreported leases hold units of this counter, and it is unknown whether the store was charged
  // with these units. So from now on, settling these leases does not change the counter.
  void Leave(std::string_view key);

  // The counter was reset: leases no longer hold anything of this counter.
  void Forget(std::string_view key);

  // Called when a change becomes pending and no other change is pending. Set before the first
  // change.
  std::function<void()> on_first;

  // The number of leases with changes.
  std::size_t changes() SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return queue_.size();
  }

  // Removes and returns at most `most` changes to report, oldest first. Leases of units wait until
  // `is_owed` is false for all of their counters, so that the store has counted the units before it
  // gets the lease's record.
  std::vector<Change> Take(std::size_t most, SteadyTime now,
                           const std::function<bool(std::string_view key)>& is_owed = {});

  // Puts back a change that the store did not apply, or perhaps did not apply. Take leaves the
  // lease out the next `pause` times.
  void PutBack(const Change& change, int pause = 0);

 private:
  struct Entry {
    Change lease;
    std::uint64_t place = 0;  // in queue_; 0: not queued
    SteadyTime expiry;        // as in expiries_; a renewed lease expires later
    bool reported = false;    // the store may have it
    int pause = 0;            // Take leaves it out this many times
    bool entered = false;     // for a lease of units: its record was sent and not put back
  };
  using Entries = std::map<LeaseId, Entry>;

  void Add(Change lease, bool reported) SLUICE_REQUIRES(mutex_);
  void Queue(Entry& entry) SLUICE_REQUIRES(mutex_);
  Entries::iterator Erase(Entries::iterator at) SLUICE_REQUIRES(mutex_);
  void EraseExpired(SteadyTime now) SLUICE_REQUIRES(mutex_);

  Mutex mutex_;
  Entries entries_ SLUICE_GUARDED_BY(mutex_);
  // The next two hold only ids of entries_, each id at most once.
  std::map<std::uint64_t, LeaseId> queue_ SLUICE_GUARDED_BY(mutex_);  // by place, oldest first
  std::set<std::pair<SteadyTime, LeaseId>> expiries_ SLUICE_GUARDED_BY(mutex_);
  std::uint64_t next_place_ SLUICE_GUARDED_BY(mutex_) = 1;
};

}  // namespace sluice
