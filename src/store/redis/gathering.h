// Checks that wait to be sent, in order of arrival; equal ones become one run.
//
// Loop thread only. Holds no check's memory: checks are linked through StoreCheck::next.
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
  };

  void Add(StoreCheck& check);

  bool empty() const { return runs_.empty(); }
  std::size_t runs() const { return runs_.size(); }

  // The oldest run. REQUIRES: !empty()
  const Run& front() const { return runs_.front(); }
  void PopFront();

  // Takes out the checks whose deadline is `now` or before, linked through `next`, or null.
  StoreCheck* TakeExpired(SteadyTime now);

  // SteadyTime::max() if there are no checks.
  SteadyTime EarliestDeadline() const;

 private:
  std::deque<Run> runs_;
  // The latest run of each hash; runs whose hashes collide are merely not merged.
  std::unordered_map<std::size_t, Run*> latest_;
};

}  // namespace sluice::redis
