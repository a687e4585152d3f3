// What passes a counter under random arrivals, and how much of that falls into an interval.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/core/simulated_counter.h"

namespace sluice {

// Units that start to be served.
struct Passage {
  Time at;
  std::int64_t cost;
};
using Passages = std::vector<Passage>;

// Arrivals that are mostly close together, sometimes apart.
class Arrivals {
 public:
  explicit Arrivals(std::uint32_t seed) : random_(seed) {}

  Duration Gap() { return Duration(Below(Below(20) == 0 ? 3'000'000 : 20'000)); }
  std::int64_t Cost() { return 1 + Below(3); }
  std::int64_t Below(std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
  }
  template <typename T>
  T Pick(const std::vector<T>& of) {
    return of[static_cast<std::size_t>(Below(static_cast<std::int64_t>(of.size())))];
  }

 private:
  std::mt19937 random_;
};

// What passes of 3,000 checks, each by a caller who starts when told to and waits at most one of
// `max_waits`.
inline Passages RandomPassages(const Limit& limit, std::uint32_t seed,
                               const std::vector<std::optional<Duration>>& max_waits = {{}}) {
  Arrivals arrivals(seed);
  SimulatedCounter counter(limit);
  Passages passed;
  for (int i = 0; i < 3000; ++i) {
    counter.now += arrivals.Gap();
    const std::int64_t cost = arrivals.Cost();
    const Verdict verdict = counter.Consume(cost, arrivals.Pick(max_waits));
    if (verdict.admitted) passed.push_back({counter.now + verdict.wait, cost});
  }
  return passed;
}

// The most units in any interval of `length`, its end left out.
inline std::int64_t MostWithin(const Passages& passed, Duration length) {
  std::int64_t most = 0;
  std::int64_t units = 0;
  for (std::size_t from = 0, to = 0; to < passed.size(); ++to) {
    units += passed[to].cost;
    while (passed[from].at <= passed[to].at - length) units -= passed[from++].cost;
    most = std::max(most, units);
  }
  return most;
}

// How many units, in 1/period, the interval furthest past rate · length is past it; with
// `last_is_free` the units that end an interval do not count. Starts are whole microseconds, so an
// interval may have lost up to one to rounding.
struct Drip {
  std::int64_t rate = 1;
  Duration period{};
  bool last_is_free = false;
};
inline std::int64_t MostBeyond(const Passages& passed, const Drip& drip) {
  std::int64_t most = 0;
  for (std::size_t from = 0; from < passed.size(); ++from) {
    std::int64_t units = 0;
    for (std::size_t to = from; to < passed.size(); ++to) {
      const std::int64_t counted = units + (drip.last_is_free ? 0 : passed[to].cost);
      const Duration length = passed[to].at - passed[from].at + Duration(1);
      most = std::max(most, counted * drip.period.count() - drip.rate * length.count());
      units += passed[to].cost;
    }
  }
  return most;
}

}  // namespace sluice
