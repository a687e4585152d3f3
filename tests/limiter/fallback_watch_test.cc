#include "limiter/fallback_watch.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FallbackWatchTest : public testing::Test {
 protected:
  // Counts one decision by fallback, at `now_`. `others`: the number of decisions by the store.
  std::optional<double> Decide(std::uint64_t others) {
    decisions_.all += 1 + others;
    decisions_.by_fallback += 1;
    return watch_.Note(now_, [this] { return decisions_; });
  }

  // Calls Decide every 10 ms for `time`. Returns the number of reports.
  int Run(Duration time, std::uint64_t others) {
    int reports = 0;
    for (Duration passed{}; passed < time; passed += milliseconds(10), now_ += milliseconds(10)) {
      reports += Decide(others).has_value() ? 1 : 0;
    }
    return reports;
  }

  FallbackWatch watch_;
  FallbackWatch::Decisions decisions_{.all = 1'000'000, .by_fallback = 7};
  SteadyTime now_{seconds(1'000)};
};

TEST_F(FallbackWatchTest, MoreThanOnePercentForTenSeconds_IsReported_AgainIfItContinues) {
  EXPECT_EQ(Run(FallbackWatch::kWindow, 98), 0);
  const auto share = Decide(98);
  ASSERT_TRUE(share);
  EXPECT_NEAR(*share, 1 / 99.0, 1e-9);
  now_ += milliseconds(10);
  EXPECT_EQ(Run(FallbackWatch::kQuiet + FallbackWatch::kWindow - seconds(1), 0), 0);
  EXPECT_EQ(Run(seconds(2), 0), 1) << "the failure continues";
}

TEST_F(FallbackWatchTest, OnePercent_IsNotReported) { EXPECT_EQ(Run(seconds(100), 99), 0); }

TEST_F(FallbackWatchTest, ShortFailuresFarApart_AreNotReported) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Run(seconds(5), 0), 0);
    now_ += seconds(60);
  }
}

}  // namespace
}  // namespace sluice
