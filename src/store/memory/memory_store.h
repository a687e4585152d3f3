// The embedded store: counters in this process' memory, for a single server without Redis, and as
// the fallback of a server whose Redis is unavailable. Decides within Submit.
//
// Thread-safe, on any thread. Sharded by key; a check locks the shards of all its counters, in
// order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "core/counter.h"
#include "store/store.h"

namespace sluice {

class MemoryStore final : public Store {
 public:
  struct Options {
    // The maximum number of counters. When it is reached, counters that equal new ones are dropped;
    // if there are none, checks that need a new counter fail with kOverloaded. Few such counters
    // may go unnoticed for a tenth of a second. Counters in use are never evicted.
    std::size_t max_keys = 1'000'000;
    // At least 1, at most 64.
    std::size_t shards = 64;
  };

  // `clock` must outlive the store.
  MemoryStore(const Clock& clock, const Options& options);

  void Submit(StoreCheck& check) override;
  void Reset(StoreReset& reset) override;
  void Undo(const StoreCheck& check) override;
  std::size_t PartOf(std::string_view) const override { return 0; }

  // Number of counters, including those that equal new ones.
  std::size_t size() const;

 private:
  struct Entry {
    CounterState state;
    Time expires;  // from then on the counter equals a new one
    std::uint64_t seed_version = 0;
  };
  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<std::string, Entry, StringHash, std::equal_to<>> entries
        SLUICE_GUARDED_BY(mutex);
    // No entry expires before this.
    Time next_expiry SLUICE_GUARDED_BY(mutex) = Time::max();
    Time next_sweep SLUICE_GUARDED_BY(mutex);
  };
  class ShardLocks;
  // A counter as found by a check, advanced to the time of the check.
  struct Draft {
    CounterState state;
    WriteBack keep = WriteBack::kNo;
  };

  Shard& ShardOf(std::string_view key) { return shards_[IndexOf(key)]; }
  std::size_t IndexOf(std::string_view key) const { return Hash(key) % shards_.size(); }

  // REQUIRES for all below: the locks of the shards of the counters involved.
  // False: no room for a new counter.
  bool Decide(StoreCheck& check);
  // Decides the counters of one group for a check that is `allowed` so far; sets checks.granted.
  void DecideGroup(std::span<CounterCheck> counters, std::span<Draft> drafts, bool allowed,
                   CoalescedChecks& checks);
  // Charges, refunds, renews or releases.
  void DecideChange(StoreCheck& check, std::span<Draft> drafts, const CoalescedChecks& checks);
  std::optional<Draft> Read(const CounterCheck& counter, Time now);
  void Write(const CounterCheck& counter, const CounterState& state, Time now);
  bool MakeRoom(Shard& shard, Time now) SLUICE_REQUIRES(shard.mutex);

  const Clock& clock_;
  std::size_t max_keys_per_shard_;
  std::vector<Shard> shards_;
};

}  // namespace sluice
