// What became of a lease that was to be settled, and what a limit learned from its slots.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// With the numbers of the API.
enum class LeaseOutcome : std::uint8_t {
  kSettled = 1,
  kAlreadySettled = 2,
  kNotFound = 3,
  kQueued = 4,  // the store does not answer; it settles the lease later
};

// What a limit that follows the load learned from a hold that was released.
enum class HoldResult : std::uint8_t { kInTime, kTooSlow, kOverload, kIgnored };
inline constexpr std::size_t kHoldResults = 4;

}  // namespace sluice
