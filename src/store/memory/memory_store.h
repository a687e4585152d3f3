// The embedded store: counters in this process' memory, for a single server without Redis, and as
// the fallback of a server whose Redis is unavailable. Submit decides before it returns.
//
// Thread-safe, on any thread. Sharded by key; a check locks the shards of all its counters, in
// order.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "core/algorithm/counter.h"
#include "store/memory/lease_records.h"
#include "store/store.h"

namespace sluice {

class MemoryStore final : public Store {
 public:
  struct Options {
    // The maximum number of counters, and the approximate maximum of their memory in bytes.
    // When a maximum is reached, counters whose state equals that of a new counter are dropped. If
    // no counter can be dropped, a check that needs a new counter, or more memory for an existing
    // one, fails with kOverloaded. If a search finds few counters to drop, the next search is a
    // tenth of a second later, and checks may fail until then. Counters in use are never evicted.
    // If several threads reach a maximum at the same time, it may be exceeded by the sum of what
    // these threads add.
    std::size_t max_keys = 1'000'000;
    std::size_t max_memory = std::size_t{256} << 20;
    // At least 1, at most 64.
    std::size_t shards = 64;
    // Whether a bucket that starts empty is new as soon as it has expired, as in Redis. If not, it
    // is new only after it has been dropped: for tests that control themselves when counters end.
    bool forgets = true;
  };
  // The maximum number of open leases of units. A check that would open one more fails with
  // kOverloaded.
  static constexpr std::size_t kMaxOpenLeases = LeaseRecords::kMaxOpen;

  // `clock` must outlive the store.
  MemoryStore(const Clock& clock, const Options& options);

  void Submit(StoreCheck& check) override;
  void Reset(StoreReset& reset) override;
  void Undo(const StoreCheck& check) override;
  bool Settle(const StoreCheck& settle) override;
  std::size_t PartOf(std::string_view) const override { return 0; }

  // Loads the counters with these keys into the CPU's cache, all at the same time. Checks would
  // load them one after the other, which is slower. REQUIRES: no other thread uses the store.
  void Prefetch(std::span<const std::string_view> keys) const;

  // Number of counters, including expired ones that have not been dropped.
  std::size_t size() const { return keys_; }
  // The approximate bytes of memory that the counters take.
  std::size_t memory() const { return bytes_; }
  // The number of leases of units that are open or remembered as settled.
  std::size_t leases() const { return records_.size(); }

 private:
  struct Entry {
    CounterState state;
    Time expires;  // from then on the counter equals or counts as a new one
    std::uint64_t seed_version = 0;
    std::size_t bytes = 0;
  };
  using Entries = std::unordered_map<std::string, Entry, StringHash, std::equal_to<>>;
  struct Shard {
    mutable Mutex mutex;
    Entries entries SLUICE_GUARDED_BY(mutex);
    // No entry expires before this.
    Time next_expiry SLUICE_GUARDED_BY(mutex) = Time::max();
    Time next_sweep SLUICE_GUARDED_BY(mutex);
  };
  class ShardLocks;
  // A counter as found by a check, advanced to the time of the check.
  struct Draft {
    CounterState state;                    // advanced
    const CounterState* stored = nullptr;  // null: the counter is new
    WriteBack keep = WriteBack::kNo;
  };

  Shard& ShardOf(const HashedKey& key) { return shards_[IndexOf(key)]; }
  std::size_t IndexOf(const HashedKey& key) const { return key.hash() % shards_.size(); }

  // Returns false if there is no room.
  bool Decide(StoreCheck& check);

  // The functions up to Write are called by Decide, which holds the locks of the check's shards.
  //
  // Decides `counters`, one group of `check`. `check.admitted` is the decision so far; if it is
  // false, the group is not charged. Returns true if `check.admitted` is true and the group admits
  // the check.
  bool DecideGroup(const StoreCheck& check, std::span<CounterCheck> counters,
                   std::span<Draft> drafts);
  // Takes back the grants that `check` returns.
  void TakeBack(const StoreCheck& check, std::span<Draft> drafts);
  // Applies the grants that `check` requests. If the group of a counter was denied, the counter's
  // element of `held` has kNothing.
  void TakeGrants(StoreCheck& check, std::span<Draft> drafts, std::span<const Held> held);
  // Decides a check of any mode other than kConsume and kPeek.
  void DecideChange(StoreCheck& check, std::span<Draft> drafts);
  // Writes the record of the lease that a change concerns. `held`: what the lease held before.
  void WriteRecord(StoreCheck& check, std::span<const Draft> drafts, std::vector<Held> held);
  bool IsForgotten(const CounterCheck& counter, const Entry& entry, Time now) const;
  std::optional<Draft> Read(const StoreCheck& check, const CounterCheck& counter);
  void Write(const CounterCheck& counter, const CounterState& state, Time now);

  bool HasRoomFor(std::size_t new_keys) const;
  // Drops expired counters until there is room for `keys` more or about kMostVisited counters have
  // been visited. Returns false if nothing was dropped. REQUIRES: no lock is held.
  bool MakeRoom(std::size_t keys);
  std::size_t Sweep(Shard& shard, Time now) SLUICE_REQUIRES(shard.mutex);
  void Drop(Shard& shard, Entries::iterator entry) SLUICE_REQUIRES(shard.mutex);

  const Clock& clock_;
  const std::size_t max_keys_;
  const std::size_t max_memory_;
  const bool forgets_;
  std::atomic<std::size_t> keys_ = 0;  // in all shards
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<std::size_t> next_sweep_ = 0;  // the shard to sweep next
  std::vector<Shard> shards_;
  LeaseRecords records_;
};

}  // namespace sluice
