// Grants: units that a server takes from a counter in advance, to decide checks by itself until the
// grant ends. Units that the server returns in time go back to the counter; the rest count as used.
//
// Units are out while servers hold them in grants. A counter whose capacity is `most` units keeps
// level + units out <= most: while units are out, it refills only to `most` minus these units. So
// level + units out grows only by refill. It does not matter when the holders use their units: in
// every interval, at most as many units are used as the limit allows. docs/prefetch.md proves it.
// The twin of scripts/lua/grants.lua. Pure values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace sluice {

// The range of the parameter `prefetch`.
inline constexpr Duration kMinPrefetch = std::chrono::milliseconds(10);
inline constexpr Duration kMaxPrefetch = std::chrono::seconds(10);

// What a server asks for.
struct GrantWish {
  std::int64_t units = 0;  // 0: nothing
  Duration life{};         // the longest time to hold them

  bool operator==(const GrantWish&) const = default;
};

// What the server gets.
struct Grant {
  std::int64_t units = 0;  // 0: nothing
  Time generation;         // when the counter will count the grant as used, on the counter's clock;
                           // in a GrantReturn, this time identifies the grant's generation
  Duration life{};         // how long the holder may use the grant, from the decision on

  bool operator==(const Grant&) const = default;
};

// The end of a grant. The holder reports it once.
struct GrantReturn {
  Time generation;
  std::int64_t granted = 0;
  std::int64_t unused = 0;  // at most `granted`

  bool operator==(const GrantReturn&) const = default;
};

// The units of a counter that are out, grouped by the end of their grants. Grants that end at about
// the same time share a generation, so two generations are enough for any number of holders.
struct GrantsOut {
  // A grant is at most 1/kPartOfLevel of the counter's level, and at least kFewest units.
  static constexpr std::int64_t kPartOfLevel = 8;
  static constexpr std::int64_t kFewest = 4;

  // The generation that ends first. There is a newer one only if this one exists.
  std::int64_t older = 0;
  std::int64_t newer = 0;
  Time older_ends;
  Time newer_ends;

  std::int64_t units() const { return older + newer; }
  bool any() const { return older > 0; }
  // When the last grant ends. REQUIRES: any()
  Time last_end() const { return newer > 0 ? newer_ends : older_ends; }

  // Adds a grant, unless the counter has too few units, or the newer generation ends too soon.
  Grant Add(std::int64_t level, Time now, const GrantWish& wish) {
    const std::int64_t units = std::min(wish.units, level / kPartOfLevel);
    if (units < kFewest || wish.life <= Duration::zero()) return {};
    const Duration older_lasts = older_ends - now;
    if (!any()) older_ends = now + wish.life;
    if (!any() || 2 * older_lasts >= wish.life) {
      older += units;
      return {units, older_ends, std::min(wish.life, older_ends - now)};
    }
    if (newer == 0) newer_ends = now + wish.life;
    if (4 * (newer_ends - now) < wish.life) return {};
    newer += units;
    return {units, newer_ends, std::min(wish.life, newer_ends - now)};
  }

  // Whether the generation of a grant still has units.
  bool Knows(const GrantReturn& returned) const {
    return (any() && returned.generation == older_ends) ||
           (newer > 0 && returned.generation == newer_ends);
  }

  // Removes the units of a grant, but no more than its generation has. Returns how many of them are
  // unused. REQUIRES: Knows(returned)
  std::int64_t Remove(const GrantReturn& returned) {
    const bool is_older = any() && returned.generation == older_ends;
    std::int64_t& generation = is_older ? older : newer;
    const std::int64_t granted = std::min(returned.granted, generation);
    generation -= granted;
    if (newer == 0) newer_ends = Time();
    if (older == 0) EndOlder();
    return std::min(returned.unused, granted);
  }

  // Ends the older generation.
  void EndOlder() { *this = {newer, 0, newer_ends, Time()}; }
  // Moves the ends of all grants, because the counter's clock was set back.
  void Move(Duration by) {
    if (any()) older_ends += by;
    if (newer > 0) newer_ends += by;
  }

  bool operator==(const GrantsOut&) const = default;
};

}  // namespace sluice
