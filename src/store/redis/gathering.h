// Checks that wait to be sent, in order of arrival; equal ones become one run.
//
// Loop thread only. Owns no check: checks are linked through StoreCheck::next. In the steady state
// nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "store/store.h"

namespace sluice::redis {

class Gathering {
 public:
  // Equal checks, linked in order of arrival.
  struct Run {
    StoreCheck* first = nullptr;  // null: all its checks have expired
    StoreCheck* last = nullptr;
    std::size_t n = 0;
    std::uint64_t number = 0;  // ascending, from 1
    // The latest earlier run that must be decided before this one, because an in-order check of
    // each uses the same counter. 0: none. May name a run that shares no counter, never a run that
    // is too early.
    std::uint64_t after = 0;
  };

  void Add(StoreCheck& check);

  bool empty() const { return live_runs_ == 0; }
  std::size_t runs() const { return live_runs_; }

  // The oldest run. REQUIRES: !empty()
  const Run& front() const { return runs_[head_]; }
  void PopFront();

  // Takes out the checks whose deadline is `now` or before, linked through `next` in the order they
  // would have been decided in, or null.
  StoreCheck* TakeExpired(SteadyTime now);

  // Calls `visit` with every check, in order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (std::size_t i = head_; i < runs_.size(); ++i) {
      for (StoreCheck* check = runs_[i].first; check != nullptr; check = check->next) {
        visit(*check);
      }
    }
  }

 private:
  static constexpr std::size_t kSlots = 1024;

  Run* LatestEqual(const StoreCheck& check, std::size_t hash);
  std::uint64_t LatestInOrder(const StoreCheck& check) const;
  void NoteInOrder(const StoreCheck& check, Run& run);
  void DropEmptyRuns();

  std::vector<Run> runs_;  // those before head_ have been taken
  std::size_t head_ = 0;
  std::size_t live_runs_ = 0;  // runs that have a check
  std::uint64_t next_number_ = 1;
  // Numbers of runs, by hash; those of runs taken are stale, and lower than every other. Where two
  // hashes share a slot, checks that could have joined a run begin one of their own.
  std::array<std::uint64_t, kSlots> latest_{};    // by identity: the run to join
  std::array<std::uint64_t, kSlots> in_order_{};  // by key: the latest run with an in-order check
};

}  // namespace sluice::redis
