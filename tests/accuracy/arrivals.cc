#include "tests/accuracy/arrivals.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace sluice::accuracy {

namespace {

constexpr int kZipfKeys = 20;

// The time that `steps` arrivals take, if their rate is the limit's rate multiplied by `times`.
Duration After(const Size& size, double times, std::int64_t steps) {
  const Duration window = size.window;
  return Duration(std::llround(static_cast<double>(window.count() * steps) /
                               (times * static_cast<double>(size.limit))));
}

// Evenly spaced arrivals of one key.
void AddEven(Arrivals& arrivals, const Size& size, double times, const Span& span) {
  for (std::int64_t i = 0; After(size, times, i) < span.length; ++i) {
    arrivals.push_back({.due = span.from + After(size, times, i)});
  }
}

Arrivals Uniform(const Size& size, const Span& span) {
  Arrivals arrivals;
  AddEven(arrivals, size, 2, span);
  return arrivals;
}

// Bursts of up to twice the limit at once, at random times; on average, two bursts in a window.
Arrivals Bursty(const Size& size, const Span& span) {
  Arrivals arrivals;
  std::mt19937 random(1);
  std::exponential_distribution<double> gap(2.0 /
                                            std::chrono::duration<double>(size.window).count());
  std::uniform_int_distribution<std::int64_t> burst(1, 2 * size.limit);
  const auto next = [&] {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(gap(random)));
  };
  for (Time at = span.from; at < span.from + span.length; at += next()) {
    arrivals.insert(arrivals.end(), burst(random), {.due = at});
  }
  return arrivals;
}

// Key k gets checks in proportion to 1/(k + 1). Each of them costs 1 to 3 units, depending on k.
Arrivals Zipf(const Size& size, const Span& span) {
  std::vector<double> weights;
  for (int key = 0; key < kZipfKeys; ++key) weights.push_back(1.0 / (key + 1));
  std::mt19937 random(2);
  std::discrete_distribution<int> any_key(weights.begin(), weights.end());
  Arrivals arrivals;
  AddEven(arrivals, size, 4, span);
  for (Arrival& arrival : arrivals) {
    arrival.key = any_key(random);
    arrival.cost = 1 + arrival.key % 3;
  }
  return arrivals;
}

// Arrivals at eight times the limit in the quarter of a window around each edge of the clock; none
// at other times.
Arrivals Edges(const Size& size, const Span& span) {
  const Duration half = Duration(size.window) / 8;
  Arrivals arrivals;
  for (Time edge = NextEdge(span.from + half, size.window); edge < span.from + span.length + half;
       edge += size.window) {
    AddEven(arrivals, size, 8, {.from = edge - half, .length = 2 * half});
  }
  return arrivals;
}

// For the picture docs/algorithms.svg. The rate is below the limit, except for one and a half
// windows that begin in the middle of a window. In these, it is six times the limit.
Arrivals Burst(const Size& size, const Span& span) {
  const Time edge = NextEdge(span.from, size.window);
  const Duration window = size.window;
  Arrivals arrivals;
  AddEven(arrivals, size, 0.6, {.from = edge, .length = 3 * window / 2});
  AddEven(arrivals, size, 6, {.from = edge + 3 * window / 2, .length = 3 * window / 2});
  AddEven(arrivals, size, 0.6, {.from = edge + 3 * window, .length = 2 * window});
  return arrivals;
}

}  // namespace

const std::vector<Pattern>& Patterns() {
  static const std::vector<Pattern> patterns = {
      {"uniform", "evenly spaced, twice the limit", Uniform},
      {"bursty", "up to twice the limit at once, at random times", Bursty},
      {"zipf", "20 keys; the k-th gets checks in proportion to 1/k; costs of 1 to 3", Zipf},
      {"edges", "eight times the limit around the clock's edges, nothing between", Edges},
      {"burst", "below the limit, six times the limit for 1.5 windows, below it again", Burst},
  };
  return patterns;
}

Arrivals BoundaryAttack(const Size& size, Time edge) {
  Arrivals arrivals(size.limit, {.due = edge - BoundaryLead(size)});
  arrivals.insert(arrivals.end(), size.limit, {.due = edge});
  return arrivals;
}

Duration BoundaryLead(const Size& size) {
  return std::min<Duration>(Duration(size.window) * 2 / 5, std::chrono::seconds(2));
}

Time NextEdge(Time t, Duration window) {
  const Duration since = t.time_since_epoch();
  return Time((since + window - Duration(1)) / window * window);
}

}  // namespace sluice::accuracy
