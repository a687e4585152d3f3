// Tests of the ideal limiters with arrivals that can be computed by hand.
#include "tests/accuracy/ideal.h"

#include <gtest/gtest.h>

namespace sluice::accuracy {
namespace {

using std::chrono::seconds;

constexpr Duration kWindow = seconds(1);

Passages At(const std::vector<std::pair<std::int64_t, std::int64_t>>& units) {
  Passages passages;
  for (const auto& [at, cost] : units) {
    passages.push_back({Time(seconds(1'000'000) + Duration(at)), cost});
  }
  return passages;
}

TEST(Ideal, ClockWindows_RestartAtTheBoundary) {
  EXPECT_EQ(IdealClockWindows({}, 3, kWindow), 0);
  EXPECT_EQ(IdealClockWindows(At({{0, 2}, {1, 2}, {2, 1}, {999'999, 1}}), 3, kWindow), 3);
  EXPECT_EQ(IdealClockWindows(At({{999'999, 3}, {1'000'000, 3}, {1'000'001, 1}}), 3, kWindow), 6);
}

TEST(Ideal, SlidingLog_FreesEachUnitAWindowLater) {
  EXPECT_EQ(IdealSlidingLog({}, 3, kWindow), 0);
  EXPECT_EQ(IdealSlidingLog(At({{0, 2}, {500'000, 1}, {999'999, 1}}), 3, kWindow), 3);
  EXPECT_EQ(IdealSlidingLog(At({{0, 2}, {500'000, 1}, {1'000'000, 2}}), 3, kWindow), 5);
  EXPECT_EQ(IdealSlidingLog(At({{0, 2}, {500'000, 1}, {1'000'000, 3}}), 3, kWindow), 3);
}

constexpr Bucket kBucket{.burst = 3, .rate = 2, .period = seconds(1)};

TEST(Ideal, TokenBucket_FillsAtTheRateUpToTheBurst) {
  EXPECT_EQ(IdealTokenBucket({}, kBucket), 0);
  EXPECT_EQ(IdealTokenBucket(At({{0, 3}, {499'999, 1}, {500'000, 1}}), kBucket), 4);
  EXPECT_EQ(IdealTokenBucket(At({{0, 1}, {9'000'000, 4}, {9'000'000, 3}}), kBucket), 4);
}

TEST(Ideal, TokenBucket_StartsEmpty_FillsFromItsFirstCheckOn) {
  Bucket bucket = kBucket;
  bucket.starts_empty = true;
  EXPECT_EQ(IdealTokenBucket(At({{0, 1}, {499'999, 1}, {500'000, 1}}), bucket), 1);
}

TEST(Ideal, TokenBucket_ThatBorrows_AdmitsAnyCostAfterItsDebtIsPaid) {
  Bucket bucket = kBucket;
  bucket.borrows = true;
  EXPECT_EQ(IdealTokenBucket(At({{0, 5}, {999'999, 1}, {1'000'000, 4}, {2'900'000, 1}}), bucket),
            9);
}

TEST(Ideal, TokenBucket_MayWait_UsesTokensAddedDuringTheWait) {
  Bucket bucket = kBucket;
  bucket.max_wait = seconds(1);
  EXPECT_EQ(IdealTokenBucket(At({{0, 3}, {0, 2}, {499'999, 1}, {500'000, 1}}), bucket), 6);
}

// A warm bucket admits ten a second. An unused bucket stores ten permits in a second. The five
// expensive ones together cost one second. All other permits cost 0.1 s each.
constexpr Warmup kWarmup{.rate = 10, .period = seconds(1), .warmup = seconds(1)};

Passages EveryMillisecond(int count) {
  Passages checks;
  for (int i = 0; i < count; ++i)
    checks.push_back({Time(seconds(1'000'000)) + Duration(1'000 * i)});
  return checks;
}

TEST(Ideal, WarmingBucket_IsColdAtFirst) {
  EXPECT_EQ(IdealWarmingBucket(EveryMillisecond(1), kWarmup), 1);
  // The first permit costs 280 ms, the second 240, then 200, 160, 120.
  EXPECT_EQ(IdealWarmingBucket(EveryMillisecond(280), kWarmup), 1);
  EXPECT_EQ(IdealWarmingBucket(EveryMillisecond(281), kWarmup), 2);
  EXPECT_EQ(IdealWarmingBucket(EveryMillisecond(1'001), kWarmup), 6);
}

TEST(Ideal, WarmingBucket_InUse_KeepsItsRate) {
  // If a permit does not cost a whole number of milliseconds, the next check may be admitted a
  // millisecond late.
  EXPECT_NEAR(IdealWarmingBucket(EveryMillisecond(11'001), kWarmup), 106, 1);
}

}  // namespace
}  // namespace sluice::accuracy
