// Records of checks: plain values. Times are on the store's clock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace sluice::accuracy {

// The outcome of an answered check.
struct Outcome {
  int key = 0;  // of the user that the counter is for, from 0
  std::int64_t cost = 1;
  Time decided_at;
  Duration wait{};  // if admitted: how much later the check starts
  bool admitted = false;
};

// The outcomes are in no particular order.
struct History {
  std::vector<Outcome> outcomes;
  int unknown = 0;  // failed, or decided by a fallback; Redis may have charged them
};

// Admitted units and their time. Lists are ordered by time.
struct Passage {
  Time at;
  std::int64_t cost = 1;

  bool operator==(const Passage&) const = default;
};

using Passages = std::vector<Passage>;

}  // namespace sluice::accuracy
