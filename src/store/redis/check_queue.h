// Checks waiting to be sent, in order of arrival; equal checks are coalesced into one entry.
//
// Loop thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "base/clock.h"
#include "store/redis/pending_check.h"

namespace sluice::redis {

class CheckQueue {
 public:
  // Equal checks.
  struct Entry {
    PendingChecks checks;      // in order of arrival; empty: all have been removed
    std::uint64_t number = 0;  // ascending, from 1
    // The number of the latest entry that must be decided before this one, because both have an
    // in-order check of the same counter. 0: none. If hashes collide, the number may be too
    // large, but never too small.
    std::uint64_t after = 0;

    const PendingCheck& front() const { return *checks.front(); }
  };

  void Add(PendingPtr check);

  bool empty() const { return live_entries_ == 0; }
  std::size_t entries() const { return live_entries_; }

  // The oldest entry. REQUIRES: !empty()
  const Entry& front() const { return entries_.front(); }
  Entry TakeFront();

  // All entries, oldest first; some may be empty.
  const std::deque<Entry>& all() const { return entries_; }
  // Removes all()[index]. REQUIRES: this entry is neither empty nor the oldest
  Entry Take(std::size_t index);

  // Removes and returns the checks for which `takes` returns true. `takes` is called in the order
  // of the queue.
  PendingChecks RemoveIf(const std::function<bool(const PendingCheck&)>& takes);
  // Removes the checks whose deadline is `now` or before.
  PendingChecks RemoveExpired(SteadyTime now) {
    return RemoveIf([now](const PendingCheck& it) { return it.check->deadline <= now; });
  }

  // Calls `visit` with every check, in order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Entry& entry : entries_) {
      for (const PendingPtr& check : entry.checks) visit(*check);
    }
  }

 private:
  static constexpr std::size_t kSlots = 1024;

  Entry* LatestEqual(const PendingCheck& check, std::size_t hash);
  std::uint64_t LatestInOrder(const StoreCheck& check) const;
  void NoteInOrder(const StoreCheck& check, Entry& entry);
  void DropEmptyEntries();

  std::deque<Entry> entries_;     // the first entry has a check
  std::size_t live_entries_ = 0;  // entries that have a check
  std::uint64_t next_number_ = 1;
  // The latest entry whose checks have the identity hash `hash`. Stale once the entry has been
  // removed.
  struct Latest {
    std::size_t hash = 0;
    std::uint64_t number = 0;
  };
  // By hash. If two hashes share a slot, a check may get a separate entry although it could have
  // joined another.
  std::array<Latest, kSlots> latest_{};           // by identity: the entry to join
  std::array<std::uint64_t, kSlots> in_order_{};  // by key: the latest entry with an in-order check
};

}  // namespace sluice::redis
