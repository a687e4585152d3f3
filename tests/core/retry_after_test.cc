// For every algorithm: if there are no other checks, a retry exactly after retry_after is admitted,
// and a retry 1 µs earlier is denied.
#include <gtest/gtest.h>

#include "tests/core/every_limit.h"
#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// `verdict` has just denied a check of `demand`. Expects that an equal check is still denied 1 µs
// before retry_after, and admitted at retry_after.
void ExpectExact(SimulatedCounter& counter, const Verdict& verdict, const CounterDemand& demand) {
  ASSERT_NE(verdict.retry_after, Verdict::kNever);
  ASSERT_GT(verdict.retry_after, Duration(0));
  counter.now += verdict.retry_after - Duration(1);
  ASSERT_FALSE(counter.Peek(demand.units, demand.max_wait).admitted) << "1 µs too early";
  counter.now += Duration(1);
  ASSERT_TRUE(counter.Consume(demand.units, demand.max_wait).admitted) << "at retry_after";
}

class RetryAfterTest : public testing::TestWithParam<NamedLimit> {};
INSTANTIATE_TEST_SUITE_P(Limits, RetryAfterTest, testing::ValuesIn(EveryLimit()),
                         testing::PrintToStringParamName());

TEST_P(RetryAfterTest, RandomChecks_RetryAtRetryAfterIsAdmitted_EarlierRetryIsDenied) {
  Arrivals arrivals(1);
  SimulatedCounter counter(GetParam().limit);
  const bool charges = Supports(GetParam().limit, Mode::kCharge);
  int retries = 0;
  for (int i = 0; i < 3000; ++i) {
    counter.now += Duration(arrivals.Below(3));
    const auto max_wait =
        arrivals.Pick<std::optional<Duration>>({{}, Duration(0), milliseconds(100)});
    const CounterDemand demand{{.max_wait = max_wait}, arrivals.Cost()};
    // Charges bring some counters beyond their limit.
    if (charges && arrivals.Below(10) == 0) counter.Charge(demand.units);
    const Verdict verdict = counter.Consume(demand.units, demand.max_wait);
    if (verdict.admitted) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectExact(counter, verdict, demand)) << "at " << i;
    ++retries;
  }
  EXPECT_GT(retries, 100);
}

TEST_P(RetryAfterTest, CostBeyondTheLimit_HasNoRetryAfter) {
  SimulatedCounter counter(GetParam().limit);
  const Verdict verdict = counter.Consume(kMaxCost);
  EXPECT_FALSE(verdict.admitted);
  EXPECT_EQ(verdict.retry_after, Verdict::kNever);
}

TEST(RetryAfter, FractionsOfAMicrosecond_RetryAfterIsExact) {
  // In buckets with 3 units per 7 µs, two of three units become free between whole microseconds.
  // 1,000 µs cannot be divided into 7 segments of whole microseconds.
  const Limit limits[] = {
      TokenBucket{.rate = 3, .period = Duration(7), .burst = 3},
      TokenBucket{.rate = 3, .period = Duration(7), .burst = 3, .borrows = true},
      LeakyBucket{.rate = 3, .period = Duration(7), .queue = 2},
      SlidingWindow{.limit = 3, .window = Duration(1000), .segments = 7},
  };
  for (const Limit& limit : limits) {
    Arrivals arrivals(2);
    SimulatedCounter counter(limit);
    for (int i = 0; i < 1000; ++i) {
      counter.now += Duration(arrivals.Below(3));
      const CounterDemand demand{{.max_wait = Duration(arrivals.Below(4))}, arrivals.Cost()};
      const Verdict verdict = counter.Consume(demand.units, demand.max_wait);
      if (verdict.admitted) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectExact(counter, verdict, demand)) << "at " << i;
    }
  }
}

}  // namespace
}  // namespace sluice
