#include "load/latency_histogram.h"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

TEST(LatencyHistogram, Empty_QuantilesAndMaxAreZero) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.99), Duration(0));
  EXPECT_EQ(histogram.max(), Duration(0));
}

TEST(LatencyHistogram, SmallValues_AreExact) {
  LatencyHistogram histogram;
  for (int us = 1; us <= 100; ++us) histogram.Add(Duration(us));
  EXPECT_EQ(histogram.Quantile(0.5), Duration(50));
  EXPECT_EQ(histogram.Quantile(0.99), Duration(99));
  EXPECT_EQ(histogram.Quantile(0), Duration(1));
  EXPECT_EQ(histogram.Quantile(1), Duration(100));
}

TEST(LatencyHistogram, AnyValue_IsReportedWithinItsBucket) {
  for (std::int64_t us = 1; us < std::int64_t{1} << 39; us = us * 5 / 4 + 1) {
    LatencyHistogram histogram;
    histogram.Add(Duration(us));
    histogram.Add(Duration(std::int64_t{1} << 39));  // so that max() does not cap the quantile
    const std::int64_t found = histogram.Quantile(0.5).count();
    EXPECT_GE(found, us);
    EXPECT_LE(found, us + us / 64) << us;
  }
}

TEST(LatencyHistogram, ValueOutsideTheRange_CountsAsTheNearestEnd) {
  LatencyHistogram histogram;
  histogram.Add(Duration(-5));
  histogram.Add(Duration(std::int64_t{1} << 60));
  EXPECT_EQ(histogram.Quantile(0.5), Duration(0));
  EXPECT_EQ(histogram.Quantile(1), Duration((std::int64_t{1} << 40) - 1));
}

TEST(LatencyHistogram, Merge_EqualsOneHistogramOfAllValues) {
  LatencyHistogram evens;
  LatencyHistogram odds;
  for (int us = 2; us <= 100; us += 2) evens.Add(Duration(us));
  for (int us = 1; us <= 99; us += 2) odds.Add(Duration(us));
  odds.Merge(evens);
  EXPECT_EQ(odds.count(), 100u);
  EXPECT_EQ(odds.Quantile(0.5), Duration(50));
  EXPECT_EQ(odds.max(), Duration(100));
}

}  // namespace
}  // namespace sluice::load
