// The promises of fixed_window, sliding_log and sliding_window, on random histories and for a
// greedy caller.
#include <gtest/gtest.h>

#include <map>

#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The number of units that a greedy caller gets in ten seconds. At each millisecond, the caller
// takes single units until it is denied.
std::int64_t UnitsOfGreedyCaller(const Limit& limit) {
  SimulatedCounter counter(limit);
  std::int64_t units = 0;
  for (int i = 0; i < 10'000; ++i, counter.now += milliseconds(1)) {
    while (counter.Consume().admitted) ++units;
  }
  return units;
}

TEST(FixedWindow, EveryWindow_AdmitsAtMostTheLimit) {
  for (const auto align : {FixedWindow::Align::kFirst, FixedWindow::Align::kClock}) {
    const FixedWindow limit{.limit = 10, .window = seconds(1), .align = align};
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      std::map<Time, std::int64_t> windows;
      Time start;
      for (const Passage& passage : RandomPassages(limit, seed)) {
        if (passage.at >= start + limit.window) start = limit.WindowStart(passage.at);
        windows[start] += passage.cost;
      }
      ASSERT_GT(windows.size(), 10u);
      for (const auto& [window, units] : windows) ASSERT_LE(units, limit.limit);
    }
  }
}

TEST(FixedWindow, GreedyCaller_GetsTheLimitInEveryWindow) {
  EXPECT_EQ(UnitsOfGreedyCaller(FixedWindow{.limit = 10, .window = seconds(1)}), 10 * 10);
}

TEST(SlidingLog, EveryIntervalOfTheWindowsLength_AdmitsAtMostTheLimit) {
  const SlidingLog limit{.limit = 10, .window = seconds(1)};
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Passages passed = RandomPassages(limit, seed);
    ASSERT_GT(passed.size(), 200u);
    ASSERT_LE(MostWithin(passed, limit.window), limit.limit);
  }
}

TEST(SlidingLog, GreedyCaller_GetsTheLimitInEveryWindow) {
  EXPECT_EQ(UnitsOfGreedyCaller(SlidingLog{.limit = 10, .window = seconds(1)}), 10 * 10);
}

class SlidingWindowTest : public testing::TestWithParam<std::int64_t> {
 protected:
  const SlidingWindow limit_{.limit = 10, .window = seconds(1), .segments = GetParam()};
  // The length of a sub-window, rounded up to whole microseconds, as documented.
  const Duration segment_ = Duration((1'000'000 + GetParam() - 1) / GetParam());
};

INSTANTIATE_TEST_SUITE_P(Segments, SlidingWindowTest, testing::Values(1, 3, 7, 10, 60));

TEST_P(SlidingWindowTest, EveryIntervalOfTheWindowsLength_AdmitsAtMostTheLimit) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Passages passed = RandomPassages(limit_, seed);
    ASSERT_GT(passed.size(), 100u);
    ASSERT_LE(MostWithin(passed, limit_.window), limit_.limit);
  }
}

// Segments are rounded up to whole microseconds, so together they cover the window.
TEST_P(SlidingWindowTest, WindowNotDivisibleBySegments_AdmitsAtMostTheLimit) {
  const SlidingWindow limit{.limit = 1, .window = Duration(1009), .segments = GetParam()};
  Arrivals arrivals(5);
  SimulatedCounter counter(limit);
  Passages passed;
  for (int i = 0; i < 100'000; ++i, counter.now += Duration(arrivals.Below(3))) {
    if (counter.Consume().admitted) passed.push_back({counter.now, 1});
  }
  EXPECT_LE(MostWithin(passed, limit.window), limit.limit);
}

// Compares the sliding window with a sliding log that has the same units and a window longer by one
// segment. If the sliding window denies a check, the log would deny it, too.
TEST_P(SlidingWindowTest, DeniedCheck_LogThatIsOneSegmentLongerDeniesItToo) {
  const Duration longest = segment_ * (GetParam() + 1);
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Arrivals arrivals(seed);
    SimulatedCounter counter(limit_);
    Passages passed;
    int denied = 0;
    for (int i = 0; i < 3000; ++i) {
      counter.now += arrivals.Gap();
      const std::int64_t cost = arrivals.Cost();
      if (counter.Consume(cost).admitted) {
        passed.push_back({counter.now, cost});
        continue;
      }
      std::int64_t recent = 0;
      for (const Passage& passage : passed) {
        recent += passage.at > counter.now - longest ? passage.cost : 0;
      }
      ASSERT_GT(recent + cost, limit_.limit) << "the longer log would admit check " << i;
      ++denied;
    }
    EXPECT_GT(denied, 100);
  }
}

TEST_P(SlidingWindowTest, GreedyCaller_GetsAtLeastTheLimitInTheTimeOfAWindowAndASegment) {
  const auto times =
      1 + (seconds(10) - Duration(1)) / (segment_ * (GetParam() + 1) + milliseconds(1));
  EXPECT_GE(UnitsOfGreedyCaller(limit_), 10 * times);
  EXPECT_LE(UnitsOfGreedyCaller(limit_), 10 * 10);
}

}  // namespace
}  // namespace sluice
