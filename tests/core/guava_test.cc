// Compares borrowing and warming buckets with the timings in the documentation of Guava's
// RateLimiter, and warming buckets also with Guava's formulas. ReferenceWarmingUp implements these
// formulas. A comment in SmoothRateLimiter.java derives them: the price of stored permits is an
// integral.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Returns the waits of successive callers. Each caller arrives when the previous one has started.
std::vector<Duration> Waits(SimulatedCounter& counter, const std::vector<std::int64_t>& costs) {
  std::vector<Duration> waits;
  for (const std::int64_t cost : costs) {
    const Verdict verdict = counter.Consume(cost, hours(1));
    EXPECT_TRUE(verdict.admitted);
    waits.push_back(verdict.wait);
    counter.now += verdict.wait;
  }
  return waits;
}

TokenBucket SmoothBursty(std::int64_t rate, std::int64_t burst) {
  return {
      .rate = rate, .period = seconds(1), .burst = burst, .starts_empty = true, .borrows = true};
}

TEST(Guava, SmoothBursty_WaitsAsDocumented) {
  const Duration fifth = milliseconds(200);
  const struct {
    TokenBucket limit;
    std::vector<std::int64_t> costs;
    std::vector<Duration> waits;
  } kRows[] = {
      {SmoothBursty(5, 5),
       {1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
       {Duration(0), fifth, fifth, fifth, fifth, fifth, fifth, fifth, fifth, fifth}},
      {SmoothBursty(5, 5),
       {50, 5, 5, 5, 5},
       {seconds(0), seconds(10), seconds(1), seconds(1), seconds(1)}},
      {SmoothBursty(1, 1),
       {1, 2, 3, 4, 5},
       {seconds(0), seconds(1), seconds(2), seconds(3), seconds(4)}},
  };
  for (const auto& row : kRows) {
    SimulatedCounter counter(row.limit);
    EXPECT_EQ(Waits(counter, row.costs), row.waits);
  }
}

TEST(Guava, SmoothBursty_AfterAPause_TheBurstDoesNotWait) {
  SimulatedCounter counter(SmoothBursty(5, 5));
  Waits(counter, {1});
  counter.now += seconds(60);
  EXPECT_EQ(Waits(counter, {1, 2, 2, 1, 1}),
            (std::vector<Duration>{Duration(0), Duration(0), Duration(0), Duration(0),
                                   milliseconds(200)}));
}

constexpr WarmingBucket kWarming{.rate = 10, .period = seconds(1), .warmup = seconds(3)};
constexpr Duration kStable = milliseconds(100);

TEST(Guava, SmoothWarmingUp_WaitsFallFromThreeIntervalsToOneWithinTheWarmup) {
  SimulatedCounter counter(kWarming);
  const std::vector<Duration> waits = Waits(counter, std::vector<std::int64_t>(40, 1));
  EXPECT_EQ(waits[0], Duration(0));
  EXPECT_GT(waits[1], kStable * 29 / 10);
  EXPECT_LE(waits[1], kStable * 3);
  Duration warming{};
  for (std::size_t i = 1; i < waits.size(); ++i) {
    if (i > 1) {
      EXPECT_LE(waits[i], waits[i - 1]) << i;
    }
    if (waits[i] > kStable) warming += waits[i];
  }
  EXPECT_NEAR(static_cast<double>(warming.count()), 3e6, 20);
  EXPECT_EQ(waits.back(), kStable);
}

TEST(Guava, SmoothWarmingUp_PauseAsLongAsTheWarmup_CoolsTheBucket) {
  SimulatedCounter counter(kWarming);
  const std::vector<Duration> cold = Waits(counter, std::vector<std::int64_t>(40, 1));
  counter.now += kStable + kWarming.warmup;
  EXPECT_EQ(Waits(counter, std::vector<std::int64_t>(40, 1)), cold);
}

TEST(Guava, SmoothWarmingUp_SlowRate_AdmitsAUnit_TheNextAfterAPeriod) {
  // A unit takes a day, which is longer than the usual maximum debt of ten minutes.
  SimulatedCounter counter(
      WarmingBucket{.rate = 1, .period = std::chrono::days(1), .warmup = milliseconds(1)});
  EXPECT_TRUE(counter.Consume().admitted);
  const Verdict denied = counter.Consume();
  EXPECT_FALSE(denied.admitted);
  EXPECT_NEAR(static_cast<double>(denied.retry_after.count()), 24 * 3600e6, 1e4);
}

// SmoothWarmingUp as Guava's comment describes it, but prices are rounded up to whole microseconds.
// Guava rounds prices down, so Guava admits more than the rate.
class ReferenceWarmingUp {
 public:
  ReferenceWarmingUp(const WarmingBucket& limit, Time start)
      : stable_(static_cast<double>(limit.period.count()) / static_cast<double>(limit.rate)),
        cold_(3 * stable_),
        warmup_(static_cast<double>(limit.warmup.count())),
        threshold_(0.5 * warmup_ / stable_),
        most_(threshold_ + 2 * warmup_ / (stable_ + cold_)),
        stored_(most_),
        next_free_(start) {}

  // Takes `permits` at `now`. Returns how long the caller waits.
  Duration Acquire(std::int64_t permits, Time now) {
    if (now > next_free_) {
      const auto idle = static_cast<double>((now - next_free_).count());
      // If the bucket is idle for `warmup_`, it stores `most_` permits.
      stored_ = std::min(most_, stored_ + idle / (warmup_ / most_));
      next_free_ = now;
    }
    const Duration wait = next_free_ - now;
    const double spent = std::min(static_cast<double>(permits), stored_);
    const double cold = std::min(spent, std::max(0.0, stored_ - threshold_));
    const double price = PriceUpTo(stored_) - PriceUpTo(stored_ - cold) +
                         (static_cast<double>(permits) - cold) * stable_;
    next_free_ += Duration(static_cast<std::int64_t>(std::ceil(price)));
    stored_ -= spent;
    return wait;
  }

 private:
  // The price of `stored` permits: the area under the curve of prices. The curve is flat up to
  // `threshold_` permits. From there it rises, and reaches `cold_` at `most_` permits.
  double PriceUpTo(double stored) const {
    const double above = std::max(0.0, stored - threshold_);
    const double slope = (cold_ - stable_) / (most_ - threshold_);
    return stored * stable_ + slope * above * above / 2;
  }

  double stable_, cold_, warmup_, threshold_, most_;
  double stored_;
  Time next_free_;
};

TEST(Guava, SmoothWarmingUp_RandomCallers_WaitAsTheFormulasSay) {
  const WarmingBucket limits[] = {
      kWarming,
      {.rate = 7, .period = seconds(1), .warmup = milliseconds(1300)},
      {.rate = 1000, .period = minutes(1), .warmup = seconds(10)},
      {.rate = 5, .period = hours(1), .warmup = hours(2)},
      {.rate = 1'000'000, .period = seconds(1), .warmup = seconds(1)},
  };
  for (const WarmingBucket& limit : limits) {
    Arrivals arrivals(7);
    SimulatedCounter counter(limit);
    ReferenceWarmingUp reference(limit, counter.now);
    const auto interval = limit.period / limit.rate;
    int waited = 0;
    for (int i = 0; i < 5000; ++i) {
      // The bucket is mostly busy, but at times idle for up to twice the warm-up.
      counter.now += Duration(arrivals.Below(10) == 0 ? arrivals.Below(2 * limit.warmup.count())
                                                      : arrivals.Below(5 * interval.count() + 2));
      const std::int64_t cost = arrivals.Cost();
      const Verdict verdict = counter.Consume(cost, hours(24));
      if (!verdict.admitted) continue;
      const Duration wait = reference.Acquire(cost, counter.now);
      // The bucket and the reference may round the same price to different microseconds.
      ASSERT_LE(std::chrono::abs(verdict.wait - wait), Duration(5)) << i;
      waited += verdict.wait > Duration(0) ? 1 : 0;
    }
    EXPECT_GT(waited, 1000);
  }
}

TEST(Guava, SmoothWarmingUp_EveryIntervalOfStarts_AdmitsAtMostRateTimesLengthPlusLastCost) {
  for (const std::int64_t rate : {7, 10}) {
    WarmingBucket limit = kWarming;
    limit.rate = rate;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      const Passages passed = RandomPassages(limit, seed, {{}, seconds(1), hours(1)});
      ASSERT_GT(passed.size(), 200u);
      const Drip paid{.rate = rate, .period = seconds(1), .last_is_free = true};
      ASSERT_LE(MostBeyond(passed, paid), 0);
    }
  }
}

// At these rates, the price of a unit is not a whole number of microseconds. At the highest rate,
// it is below one microsecond.
TEST(Guava, SmoothWarmingUp_HighRates_GreedyCallerGetsNoMoreThanTheRate) {
  for (const std::int64_t rate : {700, 30'000, 300'000, 3'000'000}) {
    SimulatedCounter counter(
        WarmingBucket{.rate = rate, .period = seconds(1), .warmup = milliseconds(1)});
    std::int64_t units = 0;
    for (const Time end = counter.now + milliseconds(500); counter.now < end;) {
      while (units < rate && counter.Consume().admitted) ++units;
      if (units == rate) break;
      counter.now += Duration(1);
    }
    EXPECT_LE(units, rate / 2 + 1) << rate;
    EXPECT_GE(units, std::min<std::int64_t>(rate / 4, 400'000)) << rate;
  }
}

}  // namespace
}  // namespace sluice
