// The checks that wait to be sent to one node, and how they are packed into calls of the check
// script.
//
// If no call is in flight, the checks queued during a loop iteration are sent at its end, in one
// call. If one call is in flight, checks wait for its reply, unless they fill a pack. If two calls
// are in flight, all checks wait. Calls for a single slot of a Cluster are an exception: up to
// kMaxSlotPacksInFlight are in flight. There is no timer. In Redis, coalesced checks together cost
// as much as one check, and each further check of a pack costs a third of the first.
//
// If only a few checks are queued and all are plain, each is sent in a call of its own, and none
// waits for another: the script has a fast path for a lone plain check.
//
// In-order checks wait for the earlier checks that they follow. A pack of one slot of a Cluster
// therefore also takes the checks of its slot that are queued behind checks of other slots.
// Otherwise, a batch whose checks alternate between two slots would take one round trip for each
// check, and all checks behind the batch would wait that long.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "store/redis/check_queue.h"
#include "store/redis/in_flight.h"
#include "store/redis/script_call.h"

namespace sluice::redis {

class Packer {
 public:
  // `clock`: see NodeOptions. The clock and `in_flight` must outlive this.
  Packer(const InFlight& in_flight, const Clock* clock, bool clustered)
      : in_flight_(in_flight), clock_(clock), declares_keys_(!clustered) {}

  CheckQueue& queue() { return queue_; }

  // From now on, calls declare their keys, because the node rejects undeclared keys.
  void DeclareKeys() { declares_keys_ = true; }

  // Takes the oldest checks that may be sent now. Null if no check may be sent now.
  std::unique_ptr<Pack> TakeNext();

  // A pack of only this check, to be sent before all queued checks.
  std::unique_ptr<Pack> PackAlone(PendingPtr check);

  // Keeps the memory of a pack that has been answered, for the next one.
  void Recycle(std::unique_ptr<Pack> pack) { spare_ = std::move(pack); }

 private:
  static constexpr std::size_t kMaxPacksInFlight = 2;
  // Up to this many plain checks cost Redis less in separate calls than in one pack;
  // bench/lone_check measures this.
  static constexpr std::size_t kMaxApart = 4;
  // This limit is higher than kMaxPacksInFlight, because packs of a single slot are small.
  static constexpr std::size_t kMaxSlotPacksInFlight = 16;

  std::unique_ptr<Pack> EmptyPack();
  bool MaySendApart() const;
  bool MaySendFront() const;
  bool MayJoin(const CheckQueue::Entry& entry, const Pack& pack) const;
  void AppendFollowers(Pack& pack);
  void Append(CheckQueue::Entry entry, Pack& pack);
  void Encode(Pack& pack);

  const InFlight& in_flight_;
  const Clock* const clock_;
  bool declares_keys_;
  CheckQueue queue_;
  std::size_t apart_ = 0;  // entries at the front of the queue that get separate calls
  std::unique_ptr<Pack> spare_;
  ScriptCall call_;
  std::vector<std::string_view> arguments_;
};

}  // namespace sluice::redis
