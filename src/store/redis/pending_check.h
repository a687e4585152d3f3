// A check on its way through the Redis store, from Submit until its reply has arrived or cannot
// arrive anymore.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "store/store.h"

namespace sluice::redis {

// How a check is sent to a node of a Cluster.
enum class Routing : std::uint8_t {
  kWithOthers,   // may share a call with checks of other slots
  kWithItsSlot,  // may share a call with checks of its slot, with declared keys
  kBySlot,       // alone, with declared keys, so that the node replies with redirects
  kAsking,       // alone, to the node that imports its slot
};

struct PendingCheck {
  explicit PendingCheck(StoreCheck& of_owner) : check(&of_owner) {}
  explicit PendingCheck(std::shared_ptr<StoreCheck> of_store)
      : check(of_store.get()), own(std::move(of_store)) {}

  // Called if this process was late, not Redis. If the check is overdue, it gets `more` time, once.
  void ExtendDeadline(SteadyTime now, Duration more) {
    if (check->deadline > now || std::exchange(deadline_extended, true)) return;
    check->deadline = std::min<SteadyTime>(now + more, check->last_deadline);
  }

  StoreCheck* check;                // the check to answer
  std::shared_ptr<StoreCheck> own;  // owns `check` if the store created it; else null
  std::uint64_t number = 0;         // by arrival; only in a Cluster; all pieces of a check share it
  Routing routing = Routing::kWithOthers;
  std::uint8_t redirects = 0;  // followed without a pause
  bool deadline_extended = false;
  bool is_probe = false;
  bool is_late = false;  // its owner has been answered, and `check` is a copy
};

using PendingPtr = std::unique_ptr<PendingCheck>;
using PendingChecks = std::vector<PendingPtr>;

}  // namespace sluice::redis
