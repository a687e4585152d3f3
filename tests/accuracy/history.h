// What is recorded of checks: plain values, times on the store's clock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace sluice::accuracy {

// One check that was answered.
struct Outcome {
  int key = 0;  // whose counter, from 0
  std::int64_t cost = 1;
  Time decided_at;
  Duration wait{};  // of an admitted one: it starts this much later
  bool admitted = false;
};

// In no order.
struct History {
  std::vector<Outcome> outcomes;
  int unknown = 0;  // checks without an answer by the store; Redis may have charged them
};

// Units that passed, and when. A list of them is in order of time.
struct Passage {
  Time at;
  std::int64_t cost = 1;

  bool operator==(const Passage&) const = default;
};

using Passages = std::vector<Passage>;

}  // namespace sluice::accuracy
