// What this server has let pass without the store, and the store is to be charged for when it is
// back: one sum for each counter, which counts no longer than the counter itself would.
//
// Thread-safe. Holds kMaxCounters; beyond, charges are not kept.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "core/limit.h"

namespace sluice {

class OwedCharges {
 public:
  static constexpr std::size_t kMaxCounters = 65'536;

  // What is known of the counter that a charge is for.
  struct Subject {
    std::string_view key;
    const Limit& limit;
    const Share& share;                    // of the rate at which buckets forget
    const std::optional<SeenState>& seen;  // which window is open
  };

  // Returns false if there is no room.
  bool Add(const Subject& subject, std::int64_t cost, Time now);

  // Units that still count.
  std::int64_t Find(std::string_view key, Time now) const;

  // Takes sums out that still count, at most `most` of them.
  struct Charge {
    std::string key;
    Limit limit;  // the rule's
    std::int64_t cost = 0;
    Limit shared;          // for this server's share
    CounterState charged;  // of `shared`, as if it had been new
  };
  std::vector<Charge> Take(std::size_t most, Time now);

  // Puts back what was taken out and not charged.
  void PutBack(Charge charge, Time now);

  // The counter was made as new.
  void Forget(std::string_view key);

  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kShards = 64;

  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<std::string, Charge, StringHash, std::equal_to<>> entries
        SLUICE_GUARDED_BY(mutex);
  };

  Shard& ShardOf(std::string_view key) { return shards_[Hash(key) % kShards]; }
  const Shard& ShardOf(std::string_view key) const { return shards_[Hash(key) % kShards]; }

  std::array<Shard, kShards> shards_;
  std::atomic<std::size_t> size_{0};  // entries of all shards
  // Where Take begins, so that a charge which the store refuses again and again stops no other.
  std::atomic<std::size_t> next_shard_{0};
};

}  // namespace sluice
