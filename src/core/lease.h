// A lease: slots of concurrency limits, and possibly the units of all limits of a check, held under
// one id until the lease is settled or expires.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace sluice {

// Random, so that it cannot be guessed.
using LeaseId = std::array<std::uint8_t, 16>;

// What a caller reports about a hold that it ends, for limits that follow the load.
struct HoldReport {
  static constexpr Duration kOverload = Duration::max();

  Time taken;                        // on the store's clock
  std::optional<Duration> duration;  // absent: the time since `taken`; kOverload: too slow

  bool operator==(const HoldReport&) const = default;
};

struct Lease {
  LeaseId id{};
  Duration ttl{};  // from the decision that takes or renews the lease; at least 1 ms
  std::optional<HoldReport> report;  // for kSettle; absent: no limit learns from the hold

  bool operator==(const Lease&) const = default;
};

// For this long after its end, a lease can still be settled.
inline constexpr Duration kSettlesFor = std::chrono::minutes(10);
// For this long a store remembers that a lease was settled.
inline constexpr Duration kKnowsSettledFor = std::chrono::minutes(1);

// The result of settling a lease.
enum class Settled : std::uint8_t {
  kSettled,         // now, by this call
  kAlreadySettled,  // by an earlier call: nothing changed
  kNotFound,        // never taken, or ended too long ago: nothing changed
};

// If a kSettle has this value as its units, the counter keeps what the lease took.
inline constexpr std::int64_t kAsTaken = -1;

}  // namespace sluice
