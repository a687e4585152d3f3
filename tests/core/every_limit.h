// A limit of each kind and its promise, for tests of common properties.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "core/algorithm/limit.h"
#include "tests/core/history.h"

namespace sluice {

struct NamedLimit {
  std::string name;
  Limit limit;
  // The longest time for which a cost of 1 is denied after an admitted check of at most 3 units.
  Duration longest{};
};

inline void PrintTo(const NamedLimit& named, std::ostream* out) { *out << named.name; }

inline std::vector<NamedLimit> EveryLimit() {
  using std::chrono::days;
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  using Align = FixedWindow::Align;
  const TokenBucket tokens{.rate = 7, .period = seconds(1), .burst = 10};
  TokenBucket empty = tokens;
  empty.starts_empty = true;
  TokenBucket borrows = tokens;
  borrows.borrows = true;
  const LeakyBucket leaky{.rate = 7, .period = seconds(1), .queue = 9};
  LeakyBucket no_delay = leaky;
  no_delay.delays = false;
  return {
      {"FixedWindow", FixedWindow{.limit = 10, .window = seconds(60)}, seconds(60)},
      {"ClockWindow", FixedWindow{.limit = 10, .window = seconds(60), .align = Align::kClock},
       seconds(60)},
      {"EpochWindow", FixedWindow{.limit = 10, .window = seconds(60), .align = Align::kEpoch},
       seconds(60)},
      {"Month", FixedWindow{.limit = 10, .align = Align::kMonth}, days(31)},
      {"SlidingLog", SlidingLog{.limit = 10, .window = seconds(60)}, seconds(60)},
      {"SlidingWindow", SlidingWindow{.limit = 10, .window = seconds(60), .segments = 6},
       seconds(70)},
      {"TokenBucket", tokens, milliseconds(143)},
      {"EmptyBucket", empty, milliseconds(143)},
      {"BorrowingBucket", borrows, milliseconds(429)},
      {"WarmingBucket", WarmingBucket{.rate = 7, .period = seconds(1), .warmup = seconds(2)},
       milliseconds(1300)},
      {"LeakyBucket", leaky, milliseconds(143)},
      {"LeakyBucketNoDelay", no_delay, milliseconds(143)},
      {"Concurrency", Concurrency{.limit = 10, .ttl = seconds(30)}, seconds(30)},
      {"AdaptiveConcurrency",
       Concurrency{.limit = 10,
                   .ttl = seconds(30),
                   .adapt = {.on = true, .min = 10, .latency = seconds(1), .share = 90}},
       seconds(30)},
  };
}

// For std::visit: expects that the limit's promise holds for the units in `passed`.
struct ExpectPromise {
  const Passages& passed;

  void operator()(const FixedWindow& limit) const {
    EXPECT_LE(MostWithin(passed, limit.window), 2 * limit.limit);
  }
  void operator()(const SlidingLog& limit) const {
    EXPECT_LE(MostWithin(passed, limit.window), limit.limit);
  }
  void operator()(const SlidingWindow& limit) const {
    EXPECT_LE(MostWithin(passed, limit.window), limit.limit);
  }
  void operator()(const TokenBucket& limit) const {
    const Drip drip{limit.rate, limit.period, limit.borrows};
    EXPECT_LE(MostBeyond(passed, drip), limit.burst * limit.period.count());
  }
  void operator()(const WarmingBucket& limit) const {
    const Drip drip{limit.rate, limit.period, true};
    EXPECT_LE(MostBeyond(passed, drip), limit.rate * 3 * 5000);  // slack: 3 µs per check
  }
  void operator()(const LeakyBucket& limit) const {
    // After a small step back of the clock, a caller's wait includes the skew. If the clock is then
    // replaced, later callers may start before that caller.
    const std::int64_t skew = limit.rate * kMaxSkew.count();
    const Drip drip{limit.rate, limit.period, limit.delays};
    EXPECT_LE(MostBeyond(passed, drip),
              limit.delays ? skew : (limit.queue + 1) * limit.period.count());
  }
  void operator()(const Concurrency& limit) const {
    EXPECT_LE(MostWithin(passed, limit.ttl), limit.limit);
  }
};

}  // namespace sluice
