// Converts a time of Redis' clock to this process' monotonic clock, so that callers can send checks
// at times of Redis' clock.
//
// Now is not thread-safe. SteadyAt is thread-safe.
#pragma once

#include "base/clock.h"
#include "tests/support/redis_connection.h"
#include "tests/support/redis_server.h"

namespace sluice::accuracy {

class StoreClock {
 public:
  explicit StoreClock(const test::RedisServer& redis);

  // Reads the time from Redis.
  Time Now();

  // The time of the monotonic clock at Redis' time `t`.
  SteadyTime SteadyAt(Time t) const { return steady_ + (t - store_); }

 private:
  test::RedisConnection connection_;
  // Both clocks at the same moment.
  Time store_;
  SteadyTime steady_;
};

}  // namespace sluice::accuracy
