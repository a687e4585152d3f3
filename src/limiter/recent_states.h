// The last state that this server saw of each counter. When the store fails, local counters start
// from these states. Every answer of the store updates a state, so an update must be cheap: the
// hash of the key finds a group of four entries, each of one cache line.
//
// Thread-safe. Holds at most kMaxCounters. If a group is full, an entry that counts nothing is
// evicted. If all entries count something, the least recently seen entry is evicted.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "base/hash.h"
#include "core/algorithm/counter.h"

namespace sluice {

class RecentStates {
 public:
  static constexpr std::size_t kMaxCounters = 100'000;

  RecentStates();

  // Ignores a state that is older than the known one.
  void Learn(const HashedKey& key, const SeenState& seen);

  // Prefetches the memory that Learn needs, which is seldom cached.
  void Prefetch(const HashedKey& key) const;

  std::optional<SeenState> Find(const HashedKey& key) const;

  // The counter was reset at `at`. From then on, states from before `at` are ignored.
  void Forget(const HashedKey& key, Time at);

 private:
  // The `reset_at` of an entry that only records that the counter was reset, at `seen.at`.
  static constexpr Time kWasReset = Time::min();
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kGroups = kMaxCounters / kWays;
  static constexpr std::size_t kLocks = 4096;

  struct alignas(64) Entry {
    Hash128 key;  // zero: empty
    SeenState seen;
  };
  using Group = std::array<Entry, kWays>;
  struct FreeMemory {
    void operator()(Group* groups) const;
  };

  // A spin lock for some of the groups, held while a few cache lines are accessed. Unlocking is a
  // plain memory write, so it does not wait for a cache line.
  struct Lock {
    std::atomic<bool> taken{false};

    void lock() {
      while (taken.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() { taken.store(false, std::memory_order_release); }
  };

  void Put(const Entry& entry);
  static std::size_t GroupOf(const Hash128& key);

  mutable std::array<Lock, kLocks> locks_;             // group i has lock i % kLocks
  const std::unique_ptr<Group[], FreeMemory> groups_;  // kGroups; guarded by locks_
};

}  // namespace sluice
