// Checks that wait to be sent, in order of arrival; equal ones become one run.
//
// One thread at a time. Holds no check's memory: checks are linked through StoreCheck::next.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "store/store.h"

namespace sluice::redis {

class Gathering {
 public:
  // Equal checks, linked in order of arrival. Never empty.
  struct Run {
    StoreCheck* first;
    StoreCheck* last;
    std::size_t n;
    std::size_t hash;
    std::uint64_t number;  // ascending
  };

  void Add(StoreCheck& check);

  bool empty() const { return runs_.empty(); }
  std::size_t runs() const { return runs_.size(); }

  // The oldest run. REQUIRES: !empty()
  const Run& front() const { return runs_.front(); }
  void PopFront();

  // Takes out the checks whose deadline is `now` or before, linked through `next` in the order they
  // would have been decided in, or null.
  StoreCheck* TakeExpired(SteadyTime now);

  // SteadyTime::max() if there are no checks.
  SteadyTime EarliestDeadline() const;

 private:
  bool MayJoin(const StoreCheck& check, const Run& run) const;
  void NotePlace(const StoreCheck& check, const Run& run);

  std::deque<Run> runs_;
  std::uint64_t next_number_ = 0;
  // The latest run of each hash; runs whose hashes collide are merely not merged.
  std::unordered_map<std::size_t, Run*> latest_;
  // By hash of a counter's key: the latest run in which a check that is in order uses it. A check
  // that is in order, too, joins no run before that.
  std::unordered_map<std::size_t, std::uint64_t> places_;
};

}  // namespace sluice::redis
