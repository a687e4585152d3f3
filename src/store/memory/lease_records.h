// The records of the leases of units in an embedded store: what each lease has taken from the
// counters of its check, in the order of the counters. A record expires kSettlesFor after its
// lease. The record of a settled lease says only that the lease is settled, and expires
// kKnowsSettledFor after the settlement. See scripts/lua/record.lua, which does the same in Redis.
//
// Thread-safe. Two threads never use one lease at the same time, because a thread that uses a lease
// holds the locks of the lease's counters.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "core/algorithm/counter.h"
#include "store/store.h"

namespace sluice {

class LeaseRecords {
 public:
  // The maximum number of open leases. The same number of settled ones may be remembered.
  static constexpr std::size_t kMaxOpen = 100'000;

  // Whether one more lease may be opened.
  bool HasRoom() const { return open_ < kMaxOpen; }

  // Drops some records that have ended. Cheap if there are none.
  void DropEnded(Time now);

  // Returns what the lease of `check` holds of the check's counters, and sets `settled` and
  // `lease_ends` of the check. A lease that is not open holds nothing.
  std::vector<Held> Read(StoreCheck& check);

  // Records that the lease of `check` is open and holds `held`. The lease lasts for its ttl, from
  // `check.decided_at`.
  void Enter(const StoreCheck& check, std::vector<Held> held);

  void MarkSettled(const StoreCheck& check);

  // The number of leases that are open or remembered as settled.
  std::size_t size() const SLUICE_EXCLUDES(mutex_);

 private:
  struct Bytes {
    std::size_t operator()(const LeaseId& id) const;
  };
  using Ends = std::multimap<Time, LeaseId>;  // when records end
  struct Record {
    Time lease_ends;
    std::vector<Held> held;  // empty: settled
    Ends::iterator end;
  };
  using Records = std::unordered_map<LeaseId, Record, Bytes>;

  void Put(const LeaseId& id, Time end, Record record) SLUICE_REQUIRES(mutex_);
  void Drop(Records::iterator record) SLUICE_REQUIRES(mutex_);
  void NoteFirstEnd() SLUICE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Records records_ SLUICE_GUARDED_BY(mutex_);
  Ends ends_ SLUICE_GUARDED_BY(mutex_);
  std::atomic<std::size_t> open_ = 0;
  std::atomic<Time> first_end_ = Time::max();
};

}  // namespace sluice
