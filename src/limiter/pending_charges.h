// Units that this server admitted without the store. The store is charged with them when it is
// back. Each counter has one sum. The sum expires when the counter would expire.
//
// Thread-safe. Holds at most kMaxCounters sums; charges to further counters are dropped.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "core/algorithm/counter.h"

namespace sluice {

class PendingCharges {
 public:
  static constexpr std::size_t kMaxCounters = 65'536;

  // The counter that a charge applies to.
  struct Subject {
    std::string_view key;
    const Limit& limit;
    const Share& share;                    // scales the rate of buckets
    const std::optional<SeenState>& seen;  // determines the open window
  };

  // The sum to which units were added, and the state of the sum before the addition.
  struct Added {
    std::uint64_t serial = 0;  // of the sum
    CounterSnapshot before;
  };

  // Adds `units` to the counter's sum. Empty: there is no room.
  std::optional<Added> Add(const Subject& subject, std::int64_t units, Time now);

  // Undoes an addition of `units` (but keeps `used` of them), as far as the units still count.
  // Returns false if the sum of the addition no longer exists, for example if Take has removed it.
  struct Part {
    Added added;
    std::int64_t units = 0;
    std::int64_t used = 0;  // at most `units`
  };
  bool Undo(std::string_view key, Part part, Time now);

  // The number of units that still count, including units that Take has returned and that are not
  // settled yet.
  std::int64_t Find(std::string_view key, Time now) const;

  // The number of all units that still count.
  std::int64_t Sum(Time now) const;

  // Removes and returns at most `most` sums that still count. Each must be settled or put back.
  struct Charge {
    std::string key;
    Limit limit;  // the rule's
    std::int64_t units = 0;
    Limit shared;          // for this server's share
    CounterState charged;  // the sum's units, as the state of a counter with the limit `shared`
    std::uint64_t serial = 0;
    int pause = 0;  // Take leaves it out this many times
  };
  std::vector<Charge> Take(std::size_t most, Time now);

  // The store has applied a charge that Take returned, or may have applied it.
  void Settle(const Charge& charge);
  // Puts back a charge that Take returned and that the store has not applied, unless the counter
  // was reset meanwhile. Take leaves the charge out the next `pause` times.
  void PutBack(Charge charge, Time now, int pause = 0);

  // The counter was reset.
  void Forget(std::string_view key);

  // Called when Add creates a sum and there is no other. Set before the first Add.
  std::function<void()> on_first;

  std::size_t size() const { return size_.load(); }

 private:
  static constexpr std::size_t kShards = 64;
  // When Take has looked at this many charges, it finishes the current shard and returns.
  static constexpr std::size_t kMostLookedAt = 4 * kMaxCounters / kShards;

  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<std::string, Charge, StringHash, std::equal_to<>> entries
        SLUICE_GUARDED_BY(mutex);
    // The units of charges that Take returned and that are not settled yet, by key.
    std::unordered_map<std::string, std::int64_t, StringHash, std::equal_to<>> in_flight
        SLUICE_GUARDED_BY(mutex);
  };

  Shard& ShardOf(std::string_view key) { return shards_[Hash(key) % kShards]; }
  const Shard& ShardOf(std::string_view key) const { return shards_[Hash(key) % kShards]; }

  std::array<Shard, kShards> shards_;
  std::atomic<std::size_t> size_{0};  // entries of all shards
  // The shard where the next call of Take starts. Each call starts one shard further, so that a
  // charge that the store keeps refusing does not block other charges.
  std::atomic<std::size_t> next_shard_{0};
};

}  // namespace sluice
