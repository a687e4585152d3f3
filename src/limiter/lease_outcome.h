// What became of a lease that was to be settled, with the numbers of the API.
#pragma once

#include <cstdint>

namespace sluice {

enum class LeaseOutcome : std::uint8_t {
  kSettled = 1,
  kAlreadySettled = 2,
  kNotFound = 3,
  kQueued = 4,  // the store is away; it is settled when the store answers
};

}  // namespace sluice
