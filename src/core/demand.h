// What a check requires: Demand is the same for all its counters, CounterDemand is for one counter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/hash.h"
#include "core/vocabulary.h"

namespace sluice {

// Shared by all counters of a check.
struct Demand {
  Mode mode = Mode::kConsume;
  std::optional<Duration> max_wait;  // kConsume and kPeek: the caller's longest wait
  // Whether max_wait applies only to leaky buckets: the caller then never waits for tokens.
  bool only_delays = false;
  std::optional<Time> charged_at;  // kRefund: no refund if the window of the charge has ended

  // Whether the check tests the limits; with kConsume it then takes the units. The other modes
  // change counters (kInspect only reads them) without testing the limits.
  bool consumes_or_peeks() const { return mode == Mode::kConsume || mode == Mode::kPeek; }

  // The longest time that the caller waits for tokens.
  Duration MaxWaitForTokens() const {
    return only_delays ? Duration::zero() : max_wait.value_or(Duration::zero());
  }

  bool operator==(const Demand&) const = default;
};

// What a check requires of one counter.
struct CounterDemand : Demand {
  std::int64_t units = 1;  // 0 to kMaxCost; 0 takes nothing

  bool operator==(const CounterDemand&) const = default;
};

// For hash tables in this process only.
inline std::size_t Hash(const Demand& demand) {
  // Times are never negative here, so -1 stands for an absent time.
  const auto number = [](const auto& count) { return static_cast<std::size_t>(count); };
  const std::size_t hash =
      CombineHash(number(demand.mode), number(demand.max_wait ? demand.max_wait->count() : -1));
  return CombineHash(
      hash, number(demand.charged_at ? demand.charged_at->time_since_epoch().count() : -1));
}

}  // namespace sluice
