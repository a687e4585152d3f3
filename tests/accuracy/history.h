// Records of checks: plain values. Times are on the store's clock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace sluice::accuracy {

// The outcome of an answered check.
struct Outcome {
  int key = 0;  // number of the counter's user, from 0
  std::int64_t cost = 1;
  Time decided_at;
  Duration wait{};  // if admitted: the time from the decision until the check starts
  bool admitted = false;
};

// The outcomes are in no particular order.
struct History {
  std::vector<Outcome> outcomes;
  int unknown = 0;  // failed, or decided by a fallback; Redis may have charged them
};

// The units of a check, and the time of its decision or its start. Lists are ordered by time.
struct Passage {
  Time at;
  std::int64_t cost = 1;

  bool operator==(const Passage&) const = default;
};

using Passages = std::vector<Passage>;

}  // namespace sluice::accuracy
