#include "tests/accuracy/store_clock.h"

namespace sluice::accuracy {

StoreClock::StoreClock(const test::RedisServer& redis) : connection_(redis.Connect()) {
  // The fastest answer gives the most precise offset.
  auto quickest = SteadyTime::duration::max();
  for (int i = 0; i < 100; ++i) {
    const SteadyTime asked = SteadyNow();
    const Time store = Now();
    const auto took = SteadyNow() - asked;
    if (took >= quickest) continue;
    quickest = took;
    store_ = store;
    steady_ = asked + took / 2;
  }
}

Time StoreClock::Now() {
  return Time(Duration(connection_.Integer(
      {"EVAL", "local t = redis.call('TIME') return t[1] * 1000000 + t[2]", "0"})));
}

}  // namespace sluice::accuracy
