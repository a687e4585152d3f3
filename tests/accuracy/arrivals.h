// Patterns of arrivals: when to send checks, on the store's clock. The evaluation uses the times of
// the decisions. So if a busy machine sends checks late, the results are still right.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "tests/accuracy/subject.h"

namespace sluice::accuracy {

struct Arrival {
  Time due;
  int key = 0;
  std::int64_t cost = 1;
};

// Ordered by time.
using Arrivals = std::vector<Arrival>;

struct Span {
  Time from;
  Duration length{};
};

struct Pattern {
  const char* name;
  const char* what;
  std::function<Arrivals(const Size& size, const Span& span)> arrivals;
};

// uniform, bursty, zipf, edges and burst. Each is deterministic for a given span.
const std::vector<Pattern>& Patterns();

// The boundary attack: `limit` checks shortly before an edge of the clock, and `limit` at the edge.
// REQUIRES: edge - BoundaryLead(size) lies in the future.
Arrivals BoundaryAttack(const Size& size, Time edge);
Duration BoundaryLead(const Size& size);

// The first edge of a clock-aligned window at or after `t`.
Time NextEdge(Time t, Duration window);

}  // namespace sluice::accuracy
