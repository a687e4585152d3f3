// The grants that this server holds: units of counters whose limits have `prefetch`. With these
// units, this server decides checks without the store. docs/prefetch.md explains grants.
//
//   a check ─▶ Decides ─▶ every limit has units here: answered; if a grant ends soon, the next one
//                 │        is asked for
//                 └▶ else Prepare: the check goes to the store, returns what is held of its
//                    counters, and asks for a grant of each counter that is checked often
//                    ─▶ reply ─▶ Learn
//   a lease ─▶ Prepare: returns what is held, before the store decides the lease
//   ReturnDue, on one io thread: shortly before a grant ends, returns what is not spent
//
// A grant ends for its holder before it ends for the store. For the holder, the grant's life begins
// just before the store is asked, is shortened by a tenth, and is measured on a clock that also
// runs while the machine sleeps.
//
// Thread-safe, and sharded by counter. Holds grants of at most kMaxEntries counters; the store
// decides further counters.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "limiter/ask_counts.h"
#include "limiter/clearings.h"
#include "limiter/held_grant.h"
#include "metrics/metrics_registry.h"
#include "store/store.h"

namespace sluice {

class GrantTable {
 public:
  static constexpr std::size_t kMaxEntries = 65'536;
  // The interval at which ReturnDue must be called while the table is in use.
  static constexpr std::chrono::milliseconds kReturnEvery{5};

  // All must outlive this.
  GrantTable(Store& store, Clearings& clearings, MetricsRegistry& metrics);

  // Whether a grant may concern the check: the check takes or tests units, and one of its limits
  // prefetches.
  static bool MayConcern(const StoreCheck& check);

  // If the grants held here cover the units of every counter of `check`, decides the check as a
  // store would, and returns true. REQUIRES: MayConcern(check)
  bool Decides(StoreCheck& check);

  // `check` will be submitted to the store next: adds to it the grants to return and to ask for.
  // Learn must follow. REQUIRES: MayConcern(check)
  void Prepare(StoreCheck& check);

  // The store has answered `check`, or failed. On an io thread.
  void Learn(StoreCheck& check);

  // Returns grants that end soon. On one io thread.
  void ReturnDue();
  // Whether any counter has an entry.
  bool in_use() const { return entries_ > 0; }

  // `begins` is called when the table comes into use, on any io thread. Set before the first check.
  void SetOnUse(std::function<void()> begins) { on_use_ = std::move(begins); }

  // The rules have changed: the next ReturnDue returns all grants.
  void EndAll();
  // Like EndAll. From then on, no more grants are taken.
  void Close();

  // The counter was reset: the units held here are not used anymore.
  void Forget(const HashedKey& key);

 private:
  static constexpr std::size_t kShards = 64;

  using Entries = std::unordered_map<std::string, HeldGrant, StringHash, std::equal_to<>>;
  struct Shard {
    Mutex mutex;
    Entries entries SLUICE_GUARDED_BY(mutex);
    std::atomic<BootTime> due{BootTime::max()};  // before then, ReturnDue has nothing to do
  };
  class ShardLocks;
  class GrantCall;

  static std::size_t IndexOf(const HashedKey& key) { return key.hash() % kShards; }
  Shard& ShardOf(const HashedKey& key) { return shards_[IndexOf(key)]; }
  bool Spend(StoreCheck& check, BootTime now);
  // REQUIRES: the lock of the key's shard is held.
  HeldGrant* Find(const HashedKey& key) SLUICE_NO_THREAD_SAFETY_ANALYSIS;
  void Prepare(CounterCheck& counter, bool asks, BootTime now);
  void ReturnHeld(const CounterCheck& counter, BootTime now);
  void Learn(CounterCheck& counter);
  bool Keep(const CounterCheck& counter);
  bool IsCurrent(const HeldGrant& held) const { return held.era == era_ && !closed_; }
  GrantReturn TakeOut(HeldGrant& held, BootTime now);
  void Submit(std::string_view key, const Limit& limit, const GrantReturn& returned,
              const GrantWish& wanted = {});
  void CountReturn(const CounterCheck& counter);
  static void NoteDue(Shard& shard, const HeldGrant& held);
  void ReturnDue(Shard& shard, BootTime now);

  Store& store_;
  Clearings& clearings_;
  Counter& grants_;
  Counter& granted_;
  Counter& returned_;
  Counter& ended_;
  std::function<void()> on_use_;
  std::atomic<std::int64_t> entries_{0};
  std::atomic<std::int64_t> held_{0};  // entries that hold a grant
  std::atomic<std::uint64_t> era_{1};  // grants of an earlier era are not used
  std::atomic<bool> closed_{false};
  std::array<Shard, kShards> shards_;
  AskCounts counts_;
};

}  // namespace sluice
