// A lease: slots of concurrency limits, held under one id until released or expired.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace sluice {

// Random, so that it cannot be guessed.
using LeaseId = std::array<std::uint8_t, 16>;

struct Lease {
  LeaseId id{};
  Duration ttl{};  // from the decision that takes or renews it; at least 1 ms

  bool operator==(const Lease&) const = default;
};

}  // namespace sluice
