// Counts roughly how often counters are checked, to find the counters that are worth a grant. If
// counters share an entry, a counter may seem less busy or busier than it is.
//
// Thread-safe. A call touches one cache line.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/hash.h"

namespace sluice {

class AskCounts {
 public:
  static constexpr std::uint64_t kOften = 4;

  // Counts a check at `now`. Returns whether the counter has had at least kOften checks within
  // `span`.
  bool IsOften(const HashedKey& key, Duration span, BootTime now) {
    using std::chrono::milliseconds;
    const std::size_t hash = key.hash();
    const auto time = std::chrono::floor<milliseconds>(now.time_since_epoch()).count();
    const auto ms = static_cast<std::uint64_t>(time) & kTimes;
    const std::uint64_t tag = hash >> 40 & 0xFFFF;
    // 16 bits: part of the hash; 32 bits: when the count began (ms); 16 bits: the count.
    std::atomic<std::uint64_t>& place = places_[hash % kPlaces];
    const std::uint64_t known = place.load(std::memory_order_relaxed);
    const std::uint64_t begin = known >> 16 & kTimes;
    const auto lasts = static_cast<std::uint64_t>(span / milliseconds(1));
    const bool goes_on = known >> 48 == tag && ((ms - begin) & kTimes) <= lasts;
    const std::uint64_t count = goes_on ? std::min(kOften, (known & 0xFFFF) + 1) : 1;
    place.store(tag << 48 | (goes_on ? begin : ms) << 16 | count, std::memory_order_relaxed);
    return count >= kOften;
  }

 private:
  static constexpr std::size_t kPlaces = 65'536;
  static constexpr std::uint64_t kTimes = 0xFFFFFFFF;

  std::array<std::atomic<std::uint64_t>, kPlaces> places_{};
};

}  // namespace sluice
