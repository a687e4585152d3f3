// Records of checks: plain values. Times are on the store's clock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace sluice::accuracy {

// The outcome of an answered check.
struct Outcome {
  int key = 0;  // the number of the user whose counter it is, from 0
  std::int64_t cost = 1;
  Time decided_at;
  Duration wait{};  // of an admitted check: it starts this much later
  bool admitted = false;
};

// The outcomes are in no particular order.
struct History {
  std::vector<Outcome> outcomes;
  int unknown = 0;  // checks without an answer by the store; Redis may have charged them
};

// Admitted units and their time. Lists are ordered by time.
struct Passage {
  Time at;
  std::int64_t cost = 1;

  bool operator==(const Passage&) const = default;
};

using Passages = std::vector<Passage>;

}  // namespace sluice::accuracy
