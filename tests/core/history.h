// The units that a counter admits to random arrivals, and the sums of these units over intervals.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/core/simulated_counter.h"

namespace sluice {

// Admitted units and the time at which they start.
struct Passage {
  Time at;
  std::int64_t cost;
};
using Passages = std::vector<Passage>;

// Random arrivals, mostly close together, sometimes with long gaps.
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

// The units that pass in 3,000 random checks. Each check's max_wait is one of `max_waits`. The
// caller waits as long as the answer requires.
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

// The maximum number of units in any interval of `length`. The end of an interval is excluded.
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

// The rate to which the units of intervals are compared: `rate` units per `period`.
struct Drip {
  std::int64_t rate = 1;
  Duration period{};
  bool last_is_free = false;  // the last passage of an interval does not count
};
// For each interval, subtracts rate · length / period from the units that count. Returns the
// largest difference, multiplied by the period, so that it is a whole number. Times are rounded to
// whole µs, so each interval is made 1 µs longer.
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
