// The last state seen of each counter, by this server: what its own counters begin with when the
// store fails. Learned from every answer of the store, so made to cost little: entries of one cache
// line in groups of four, found by a hash that only this process can compute.
//
// Thread-safe. Holds kMaxCounters; beyond, in each group those go first that count nothing any
// more, then those seen the longest ago.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "base/hash.h"
#include "base/mutex.h"
#include "core/share.h"

namespace sluice {

class RecentStates {
 public:
  static constexpr std::size_t kMaxCounters = 100'000;

  RecentStates();

  // What was decided before the state that is known, is not news.
  void Learn(std::string_view key, const SeenState& seen);

  std::optional<SeenState> Find(std::string_view key) const;

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kGroups = kMaxCounters / kWays;
  static constexpr std::size_t kLocks = 256;

  struct alignas(64) Entry {
    Hash128 key;  // zero: empty
    SeenState seen;
  };
  using Group = std::array<Entry, kWays>;
  struct FreeMemory {
    void operator()(Group* groups) const;
  };

  static std::size_t GroupOf(const Hash128& key);

  const Hash128 secret_;
  mutable std::array<Mutex, kLocks> locks_;            // a group's: its number modulo kLocks
  const std::unique_ptr<Group[], FreeMemory> groups_;  // kGroups; guarded by locks_
};

}  // namespace sluice
