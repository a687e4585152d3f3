// The yardstick itself, on arrivals small enough to work out by hand.
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

TEST(Ideal, ClockWindows_StartAnewAtTheEdge) {
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

TEST(Ideal, TokenBucket_FillsAtTheRateUpToTheBurst) {
  const Rate rate{.rate = 2, .period = seconds(1)};
  EXPECT_EQ(IdealTokenBucket({}, 3, rate), 0);
  EXPECT_EQ(IdealTokenBucket(At({{0, 3}, {499'999, 1}, {500'000, 1}}), 3, rate), 4);
  EXPECT_EQ(IdealTokenBucket(At({{0, 1}, {9'000'000, 4}, {9'000'000, 3}}), 3, rate), 4);
}

}  // namespace
}  // namespace sluice::accuracy
