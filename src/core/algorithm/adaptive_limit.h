// How the limit of `concurrency` follows the load (`adapt` in rules): each hold that ends moves the
// limit by a small step, up if the hold was short enough, down if it was longer than `latency`. A
// step down is share / (100 - share) times a step up, so the limit settles where `share` percent of
// the holds are short enough. Source: H. Robbins and S. Monro, "A stochastic approximation method",
// Annals of Mathematical Statistics 22, 1951. tests/bench/adaptive_laws.py compares this law with
// others.
//
// The twin of `enter_bounds` and `learn` in scripts/lua/algorithm/concurrency.lua. Pure values;
// integers only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/clock.h"
#include "core/algorithm/parameters.h"

namespace sluice {

// The parameters. The upper bound is Concurrency's `limit`.
struct Adaptation {
  static constexpr Duration kMaxLatency = std::chrono::hours(1);

  bool on = false;
  std::int64_t min = 0;    // the lower bound
  Duration latency{};      // a longer hold is too slow; 1 ms to kMaxLatency
  std::int64_t share = 0;  // percent of the holds that should be short enough; 50 to 95

  bool operator==(const Adaptation&) const = default;

  // See core/algorithm/limit.h. `most` is the upper bound, `ttl` the ttl of the leases.
  void Describe(Parameters& its, std::int64_t most, Duration ttl) {
    its.Group("adapt", on, [&](Parameters& inner) {
      inner.Number("min", min, {.most = most}, 1);
      inner.Length("latency", latency, std::min<Duration>(ttl, kMaxLatency));
      inner.Percent("share", share, {.least = 50, .most = 95}, 90);
    });
  }
};

// Holds that have ended.
struct EndedHolds {
  Duration took{};
  bool too_slow = false;
  std::int64_t slots = 1;
  std::int64_t held = 0;  // slots held just before these holds ended, by these and others
};

// The limit that a counter has learned.
struct LearnedLimit {
  static constexpr std::int64_t kSlot = 1'000'000;
  // A learned limit is forgotten if no slot is held and the counter has not changed for this long.
  static constexpr Duration kKept = std::chrono::days(1);

  std::int64_t limit = 0;  // in 1/kSlot of a slot; 0: nothing yet
  // While fewer than four fifths of the limit's slots are held, the limit does not rise above this
  // value. So the limit of an idle service can regain what it lost while the service was idle, but
  // no more. Negative during the first rise, in which all steps are larger.
  std::int64_t top = 0;

  // The limit in force. `most` is the upper bound.
  std::int64_t Now(const Adaptation& its, std::int64_t most) const {
    return std::max(its.min, std::min(most, limit / kSlot));
  }

  // Brings the learned values within the bounds, which may have changed since the values were
  // learned. If a value stayed outside, the limit in force would stay at a bound until many holds
  // had moved the value back.
  void Enter(const Adaptation& its, std::int64_t most) {
    if (limit == 0) return;
    const std::int64_t least = std::max<std::int64_t>(its.min, 1);
    limit = std::clamp(limit, least * kSlot, most * kSlot);
    const std::int64_t peak = std::clamp(std::abs(top), least * kSlot, most * kSlot);
    top = top < 0 ? -peak : peak;
  }

  // Moves the limit, but not beyond its bounds.
  void Learn(const Adaptation& its, std::int64_t most, const EndedHolds& holds) {
    constexpr std::int64_t kStep = kSlot / 50;  // the step up, for a hold that was short enough
    constexpr std::int64_t kBrief = 20;     // steps are smaller for holds below latency / kBrief
    constexpr std::int64_t kFirstRise = 5;  // the factor of the larger steps during the first rise
    if (limit == 0) limit = std::max<std::int64_t>(its.min, 1) * kSlot, top = -limit;
    const bool busy = 5 * holds.held >= 4 * Now(its, most);
    const std::int64_t latency = its.latency.count();
    bool rises = top < 0;
    std::int64_t peak = rises ? -top : top;
    std::int64_t step = kStep * std::min(latency, kBrief * holds.took.count()) / latency;
    step *= holds.slots * (rises ? kFirstRise : 1);
    if (holds.too_slow) {
      const std::int64_t down = step * its.share / (100 - its.share);
      limit = std::min(limit, std::max(its.min * kSlot, limit - down));
      rises = rises && limit >= peak * 85 / 100 - 3 * kSlot;
      if (busy && !rises) peak = limit;
    } else {
      limit = std::max(limit, std::min(busy ? most * kSlot : peak, limit + step));
      peak = std::max(peak, limit);
    }
    top = rises ? -peak : peak;
  }

  bool operator==(const LearnedLimit&) const = default;
};

}  // namespace sluice
