// Checks waiting to be sent, in order of arrival; equal checks are coalesced into one entry.
//
// Loop thread only. Owns no check: checks are linked through StoreCheck::next. In the steady state
// nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "store/store.h"

namespace sluice::redis {

class CheckQueue {
 public:
  // Equal checks, linked in order of arrival.
  struct Entry {
    StoreCheck* first = nullptr;  // null: all its checks have expired
    StoreCheck* last = nullptr;
    std::size_t n = 0;
    std::uint64_t number = 0;  // ascending, from 1
    // The latest earlier entry that must be decided before this one, because an in-order check of
    // each uses the same counter. 0: none. May be a later entry than necessary, never an earlier
    // one.
    std::uint64_t after = 0;
  };

  void Add(StoreCheck& check);

  bool empty() const { return live_entries_ == 0; }
  std::size_t entries() const { return live_entries_; }

  // The oldest entry. REQUIRES: !empty()
  const Entry& front() const { return entries_[head_]; }
  void PopFront();

  // Removes the checks for which `takes` returns true; it is called in decision order. Returns them
  // linked through `next` in that order, or null.
  StoreCheck* TakeIf(const std::function<bool(StoreCheck&)>& takes);
  // Removes the checks whose deadline is `now` or before.
  StoreCheck* TakeExpired(SteadyTime now) {
    return TakeIf([now](const StoreCheck& check) { return check.deadline <= now; });
  }

  // Calls `visit` with every check, in order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (std::size_t i = head_; i < entries_.size(); ++i) {
      for (StoreCheck* check = entries_[i].first; check != nullptr; check = check->next) {
        visit(*check);
      }
    }
  }

 private:
  static constexpr std::size_t kSlots = 1024;

  Entry* LatestEqual(const StoreCheck& check, std::size_t hash);
  std::uint64_t LatestInOrder(const StoreCheck& check) const;
  void NoteInOrder(const StoreCheck& check, Entry& entry);
  void DropEmptyEntries();

  std::vector<Entry> entries_;  // those before head_ have been removed
  std::size_t head_ = 0;
  std::size_t live_entries_ = 0;  // entries that have a check
  std::uint64_t next_number_ = 1;
  // Numbers of entries, by hash. Numbers of removed entries are stale, and lower than all others.
  // On a hash collision, a check that could have joined an entry gets a separate one.
  std::array<std::uint64_t, kSlots> latest_{};    // by identity: the entry to join
  std::array<std::uint64_t, kSlots> in_order_{};  // by key: the latest entry with an in-order check
};

}  // namespace sluice::redis
