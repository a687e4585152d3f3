#include "core/algorithm/limit.h"

#include <gtest/gtest.h>

#include "core/algorithm/counter.h"

namespace sluice {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(FormatDuration, UsesTheLargestWholeUnit) {
  EXPECT_EQ(FormatDuration(Duration(0)), "0s");
  EXPECT_EQ(FormatDuration(Duration(1)), "1us");
  EXPECT_EQ(FormatDuration(milliseconds(250)), "250ms");
  EXPECT_EQ(FormatDuration(seconds(90)), "90s");
  EXPECT_EQ(FormatDuration(minutes(60)), "1h");
  EXPECT_EQ(FormatDuration(hours(48)), "2d");
}

TEST(CounterTag, IsEqualIfLimitsCanShareACounter_DiffersOtherwise) {
  const FixedWindow hourly{.limit = 5, .window = hours(1)};
  FixedWindow raised = hourly;
  raised.limit = 50;
  FixedWindow aligned = hourly;
  aligned.align = FixedWindow::Align::kClock;
  FixedWindow shanghai = aligned;
  shanghai.utc_offset = hours(8);
  FixedWindow monthly{.limit = 5, .align = FixedWindow::Align::kMonth};
  monthly.utc_offset = -minutes(210);
  const TokenBucket bucket{.rate = 10, .period = seconds(1), .burst = 20};

  EXPECT_EQ(CounterTag(hourly), "fixed_window:1h");
  EXPECT_EQ(CounterTag(raised), CounterTag(hourly));
  EXPECT_EQ(CounterTag(aligned), "fixed_window:1h:clock+00:00");
  EXPECT_EQ(CounterTag(shanghai), "fixed_window:1h:clock+08:00");
  EXPECT_EQ(CounterTag(monthly), "fixed_window:month-03:30");
  EXPECT_EQ(CounterTag(bucket), "token_bucket:1s");
  TokenBucket other_bucket{.rate = 99, .period = seconds(1), .burst = 1};
  other_bucket.starts_empty = other_bucket.borrows = true;
  EXPECT_EQ(CounterTag(other_bucket), CounterTag(bucket));
  EXPECT_EQ(CounterTag(WarmingBucket{.period = minutes(1), .warmup = seconds(3)}),
            "token_bucket:1m:warmup");
  EXPECT_EQ(CounterTag(SlidingLog{.limit = 5, .window = hours(1)}), "sliding_log:1h");
  EXPECT_EQ(CounterTag(SlidingWindow{.limit = 5, .window = hours(1)}), "sliding_window:1h:10");
  EXPECT_EQ(CounterTag(SlidingWindow{.limit = 5, .window = hours(1), .segments = 6}),
            "sliding_window:1h:6");
  LeakyBucket leaky{.rate = 2, .period = days(1), .queue = 4};
  EXPECT_EQ(CounterTag(leaky), "leaky_bucket:1d");
  leaky.delays = false;
  EXPECT_EQ(CounterTag(leaky), "leaky_bucket:1d");
  EXPECT_EQ(CounterTag(Concurrency{.limit = 5, .ttl = seconds(30)}), "concurrency");
}

TEST(FixedWindow, MonthWindow_IsTheCalendarMonthInLocalTime) {
  using namespace std::chrono;
  struct Row {
    Duration utc_offset;
    sys_seconds at, start, end;
  };
  const Row rows[] = {
      {hours(0), sys_days(2024y / 2 / 29) + 23h, sys_days(2024y / 2 / 1), sys_days(2024y / 3 / 1)},
      {hours(0), sys_days(2023y / 12 / 31), sys_days(2023y / 12 / 1), sys_days(2024y / 1 / 1)},
      {hours(8), sys_days(2024y / 2 / 29) + 16h, sys_days(2024y / 2 / 29) + 16h,
       sys_days(2024y / 3 / 31) + 16h},
      {-hours(5), sys_days(2024y / 3 / 1) + 4h, sys_days(2024y / 2 / 1) + 5h,
       sys_days(2024y / 3 / 1) + 5h},
  };
  for (const Row& row : rows) {
    const FixedWindow limit{
        .limit = 1, .align = FixedWindow::Align::kMonth, .utc_offset = row.utc_offset};
    EXPECT_EQ(limit.WindowStart(row.at), row.start);
    EXPECT_EQ(limit.WindowEnd(limit.WindowStart(row.at)), row.end);
  }
}

TEST(FixedWindow, EpochWindows_AreConsecutiveFromTheEpoch_WeeksBeginOnThursday) {
  using namespace std::chrono;
  const auto start = [](Duration window, Time at) {
    return FixedWindow{.limit = 1, .window = window, .align = FixedWindow::Align::kEpoch}
        .WindowStart(at);
  };
  const sys_seconds at = sys_days(2024y / 2 / 29) + 23h + 59min + 59s;  // a Thursday
  EXPECT_EQ(start(days(7), at), sys_days(2024y / 2 / 29));
  EXPECT_EQ(start(days(7), at - days(1)), sys_days(2024y / 2 / 22));
  EXPECT_EQ(start(hours(1), at), sys_days(2024y / 2 / 29) + 23h);
  EXPECT_EQ(start(days(30), Time(days(59))), Time(days(30)));
  EXPECT_EQ(CounterTag(FixedWindow{.window = days(7), .align = FixedWindow::Align::kEpoch}),
            "fixed_window:7d:epoch");
}

TEST(VerdictAt, CoalescedChecks_GetTheVerdictsOfASequence) {
  const Limit limit = FixedWindow{.limit = 10, .window = seconds(60)};
  CounterState state;
  Open(limit, state, Time());
  const sluice::CoalescedChecks checks{.demand = {{}, 3}, .granted = 3, .now = Time()};
  for (std::int64_t i = 0; i < 5; ++i) {
    CounterReport report{.snapshot = Summarize(limit, state, checks)};
    const Verdict verdict = VerdictAt(limit, report, checks, i);
    EXPECT_EQ(verdict.admitted, i < 3);
    EXPECT_EQ(verdict.remaining, i < 3 ? 10 - 3 * (i + 1) : 1);
  }
}

}  // namespace
}  // namespace sluice
