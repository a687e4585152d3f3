// Redis' clock as this process sees it, to send checks at times that are told on it.
//
// Now: one thread at a time. SteadyAt: thread-safe.
#pragma once

#include "base/clock.h"
#include "tests/support/redis_connection.h"
#include "tests/support/redis_server.h"

namespace sluice::accuracy {

class StoreClock {
 public:
  explicit StoreClock(const test::RedisServer& redis);

  // Asks Redis.
  Time Now();

  // What the monotonic clock of this process shows when Redis' shows `t`.
  SteadyTime SteadyAt(Time t) const { return steady_ + (t - store_); }

 private:
  test::RedisConnection connection_;
  // The two clocks at one moment.
  Time store_;
  SteadyTime steady_;
};

}  // namespace sluice::accuracy
