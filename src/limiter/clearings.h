// When units were last given back to counters: by a refund, a reset, or the undo of a check. A
// denial of a check that was asked before is then outdated, even if its answer arrives later.
//
// Thread-safe. Counters with equal hashes share an entry, so a denial can seem outdated when it is
// not, never the reverse.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "base/hash.h"

namespace sluice {

class Clearings {
 public:
  // The store has given units back before `now`.
  void Note(std::string_view key, SteadyTime now) {
    auto& entry = entries_[Hash(key) % kEntries];
    SteadyTime known = entry.load();
    while (known < now && !entry.compare_exchange_weak(known, now)) continue;
  }

  bool HasSince(std::string_view key, SteadyTime asked) const {
    return entries_[Hash(key) % kEntries].load() > asked;
  }

 private:
  static constexpr std::size_t kEntries = 16'384;

  std::array<std::atomic<SteadyTime>, kEntries> entries_{};
};

}  // namespace sluice
