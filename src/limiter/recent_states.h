// The last state seen of each counter, by this server: what its own counters begin with when the
// store fails. Learned from every answer of the store, so made to cost little: entries of one cache
// line in groups of four, found by a hash that only this process can compute.
//
// Thread-safe. Holds kMaxCounters; beyond, in each group those go first that count nothing any
// more, then those seen the longest ago.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "base/hash.h"
#include "core/share.h"

namespace sluice {

class RecentStates {
 public:
  static constexpr std::size_t kMaxCounters = 100'000;

  RecentStates();

  // What was decided before the state that is known, is not news.
  void Learn(std::string_view key, const SeenState& seen);

  // Begins to fetch what Learn will need: its memory is seldom in a cache.
  void Prefetch(std::string_view key) const;

  std::optional<SeenState> Find(std::string_view key) const;

  // The counter was made as new.
  void Forget(std::string_view key);

 private:
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

  // Of some groups, for as long as a few lines are looked at. To give it up is a plain store, so
  // nobody waits until a line that was missed has come.
  struct Lock {
    std::atomic<bool> taken{false};

    void lock() {
      while (taken.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() { taken.store(false, std::memory_order_release); }
  };

  static std::size_t GroupOf(const Hash128& key);

  const Hash128 secret_;
  mutable std::array<Lock, kLocks> locks_;             // a group's: its number modulo kLocks
  const std::unique_ptr<Group[], FreeMemory> groups_;  // kGroups; guarded by locks_
};

}  // namespace sluice
