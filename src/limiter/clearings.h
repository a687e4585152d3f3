// When units were last given back to counters: by a refund, a settlement, a reset, a returned
// grant, or the undo of a check. From then on, the denial of an earlier check is outdated, even if
// that check's answer arrives later. While an undo is on its way to the store, the time at which it
// runs is unknown, so all denials by the counters of the undone check count as outdated.
//
// Thread-safe. Several counters can share an entry, so a valid denial can seem outdated, but an
// outdated denial never seems valid.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/hash.h"

namespace sluice {

class Clearings {
 public:
  // Records that the store gave units back before `now`.
  void Note(const HashedKey& key, SteadyTime now) {
    auto& last = entries_[key.hash() % kEntries].last;
    SteadyTime known = last.load();
    while (known < now && !last.compare_exchange_weak(known, now)) continue;
  }

  // From Begin to End, the store is being asked to give units back.
  void Begin(const HashedKey& key) { ++entries_[key.hash() % kEntries].in_progress; }
  void End(const HashedKey& key, SteadyTime now) {
    Note(key, now);
    --entries_[key.hash() % kEntries].in_progress;
  }

  bool HasSince(const HashedKey& key, SteadyTime asked) const {
    const Entry& entry = entries_[key.hash() % kEntries];
    return entry.in_progress.load() > 0 || entry.last.load() > asked;
  }

 private:
  static constexpr std::size_t kEntries = 16'384;

  struct Entry {
    std::atomic<SteadyTime> last{};
    std::atomic<std::uint32_t> in_progress{0};
  };
  std::array<Entry, kEntries> entries_{};
};

}  // namespace sluice
