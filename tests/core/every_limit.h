// A limit of each kind, for tests of common properties.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/limit.h"

namespace sluice {

struct NamedLimit {
  std::string name;
  Limit limit;
  // The longest time for which a counter that is exactly full denies a cost of 1.
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
  };
}

}  // namespace sluice
