// The commands of one connection that await their replies, oldest first, with the times at which
// they become overdue.
//
// Loop thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/redis/check_queue.h"
#include "store/redis/pending_check.h"
#include "store/store.h"

namespace sluice::redis {

// A call of the check script. A pack owns the text of its command, so the command can be sent again
// even after the owners of some checks have been answered.
struct Pack {
  std::string command;                     // in the Redis protocol
  std::vector<CheckQueue::Entry> entries;  // a check is null once it has been answered
  Routing routing = Routing::kWithOthers;  // of all its checks
  std::uint16_t slot = 0;                  // of all their keys, unless kWithOthers

  bool is_of_one_slot() const { return routing != Routing::kWithOthers; }

  std::size_t checks() const {
    std::size_t n = 0;
    for (const CheckQueue::Entry& entry : entries) n += entry.checks.size();
    return n;
  }

  // Whether the owners of all its checks have been answered. REQUIRES: no check is null.
  bool IsAbandoned() const {
    return std::all_of(entries.begin(), entries.end(), [](const CheckQueue::Entry& entry) {
      return std::all_of(entry.checks.begin(), entry.checks.end(),
                         [](const PendingPtr& it) { return it->is_late; });
    });
  }
};

struct InFlightCommand {
  enum class Kind : std::uint8_t { kPack, kReset, kScriptLoad, kAsking, kInspection };

  Kind kind = Kind::kPack;
  std::unique_ptr<Pack> pack{};  // kPack
  StoreReset* reset = nullptr;   // kReset; null if it has timed out
  SteadyTime sent{};
  SteadyTime due{};  // from then on the command is overdue
  bool deadline_extended = false;
};

class InFlight {
 public:
  // `timeout` and `silence`: see NodeOptions.
  InFlight(Duration timeout, Duration silence) : timeout_(timeout), silence_(silence) {}

  void Add(InFlightCommand command, SteadyTime now);

  bool empty() const { return commands_.empty(); }
  // The number of packs whose keys are all in one slot.
  std::size_t slot_packs() const { return slot_packs_; }
  // The number of other packs.
  std::size_t shared_packs() const { return shared_packs_; }
  const InFlightCommand& oldest() const { return commands_.front(); }

  // Removes the oldest command, whose reply has arrived. REQUIRES: !empty()
  InFlightCommand TakeOldest(SteadyTime now);
  std::vector<InFlightCommand> TakeAll();

  // Calls `visit` with every check that has not been answered, oldest first.
  template <typename Visit>
  void ForEachCheck(const Visit& visit) const {
    for (const InFlightCommand& command : commands_) {
      if (!command.pack) continue;
      for (const CheckQueue::Entry& entry : command.pack->entries) {
        for (const PendingPtr& check : entry.checks) visit(*check);
      }
    }
  }

  // Whether the entry with this number may be in flight.
  bool MayHave(std::uint64_t number) const;
  // Whether an in-order check is in flight and its owner still waits for the answer.
  bool HasInOrder() const;

  // Called if this process was late, not Redis. Each overdue command and check gets another timeout
  // from `now` on, but only once.
  void ExtendDeadlines(SteadyTime now);

  // Whether the oldest command is overdue.
  bool IsOverdue(SteadyTime now) const { return !empty() && oldest().due <= now; }
  // Whether the node has not replied at all for too long.
  bool IsSilent(SteadyTime now) const { return !empty() && SilentFrom() <= now; }

  // Returns the resets whose deadline is `now` or before. Their replies will be ignored.
  std::vector<StoreReset*> TakeOverdueResets(SteadyTime now);

  // The earliest time at which a check or a reset expires, or the node counts as silent. If
  // `with_overdue`, also the time at which the oldest command becomes overdue.
  SteadyTime NextDeadline(bool with_overdue) const;

 private:
  std::size_t& PacksLike(const Pack& pack) {
    return pack.is_of_one_slot() ? slot_packs_ : shared_packs_;
  }
  SteadyTime SilentFrom() const { return std::max(last_reply_, oldest().sent) + silence_; }

  const Duration timeout_;
  const Duration silence_;
  std::vector<InFlightCommand> commands_;
  std::size_t slot_packs_ = 0;
  std::size_t shared_packs_ = 0;
  SteadyTime last_reply_{};
};

}  // namespace sluice::redis
