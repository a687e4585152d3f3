// What every store must do with checks and counters, tested on every store. The algorithms, the
// modes and leases are tested in separate files.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/store/store_test.h"

namespace sluice::test {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest, EveryStore(), NameOfStore);

constexpr FixedWindow kTenPerMinute{.limit = 10, .window = seconds(60)};
constexpr TokenBucket kTenPerSecond{.rate = 10, .period = seconds(1), .burst = 20};

TEST_P(StoreTest, FixedWindow_LimitReached_DeniesUntilTheWindowEnds) {
  const Verdict first = Check(kTenPerMinute, 4);
  EXPECT_EQ(first, (Verdict{.admitted = true,
                            .limit = 10,
                            .remaining = 6,
                            .reset_after = seconds(60),
                            .retry_after = seconds(60)}));
  clock_.Advance(seconds(20));
  EXPECT_EQ(Admitted(kTenPerMinute, 10), 6);
  const Verdict denied = Check(kTenPerMinute);
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.remaining, 0);
  EXPECT_EQ(denied.retry_after, seconds(40));
  clock_.Advance(denied.retry_after - Duration(1));
  EXPECT_EQ(Admitted(kTenPerMinute, 1), 0);
  clock_.Advance(Duration(1));
  EXPECT_EQ(Admitted(kTenPerMinute, 20), 10);
}

TEST_P(StoreTest, FixedWindow_AlignedToTheClock_EndsAtItsBoundaries) {
  struct Row {
    const char* what;
    FixedWindow limit;
    Duration reset_after;
  };
  const auto clock = FixedWindow::Align::kClock;
  const Row rows[] = {
      {"minute", {.limit = 1, .window = seconds(60), .align = clock}, seconds(20)},
      {"day", {.limit = 1, .window = days(1), .align = clock}, hours(10) + seconds(800)},
      {"day in Shanghai",
       {.limit = 1, .window = days(1), .align = clock, .utc_offset = hours(8)},
       hours(2) + seconds(800)},
      {"week, to Monday",
       {.limit = 1, .window = days(7), .align = clock},
       days(2) + hours(10) + seconds(800)},
      {"month",
       {.limit = 1, .align = FixedWindow::Align::kMonth},
       days(27) + hours(10) + seconds(800)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    BlockingCheck check({{std::string("sluice:{t/clock}:") + row.what, row.limit}});
    EXPECT_EQ(check.RunOn(*store_).counters[0].verdict.reset_after, row.reset_after);
  }
}

TEST_P(StoreTest, TokenBucket_Emptied_RefillsAtItsRate) {
  EXPECT_EQ(Admitted(kTenPerSecond, 25), 20);
  const Verdict denied = Check(kTenPerSecond, 3);
  EXPECT_EQ(denied.retry_after, milliseconds(300));
  EXPECT_EQ(denied.reset_after, seconds(2));
  clock_.Advance(milliseconds(300) - Duration(1));
  EXPECT_FALSE(Check(kTenPerSecond, 3).admitted);
  clock_.Advance(Duration(1));
  EXPECT_TRUE(Check(kTenPerSecond, 3).admitted);
  EXPECT_FALSE(Check(kTenPerSecond).admitted);
  clock_.Advance(hours(1));
  EXPECT_EQ(Admitted(kTenPerSecond, 25), 20);
}

TEST_P(StoreTest, TokenBucket_StartingEmpty_FillsFromTheFirstCheckOn) {
  TokenBucket limit = kTenPerSecond;
  limit.starts_empty = true;
  EXPECT_FALSE(Check(limit, 1, Mode::kPeek).admitted);
  clock_.Advance(seconds(1));
  EXPECT_FALSE(Check(limit).admitted) << "a peek must not start the filling";
  clock_.Advance(milliseconds(500));
  EXPECT_EQ(Admitted(limit, 10), 5);
}

TEST_P(StoreTest, CostBeyondTheMaximumOfALimit_IsDeniedForever) {
  for (const Limit& limit : {Limit(kTenPerMinute), Limit(kTenPerSecond)}) {
    for (const std::int64_t cost : {std::int64_t{21}, kMaxCost}) {
      const Verdict verdict = Check(limit, cost);
      EXPECT_FALSE(verdict.admitted);
      EXPECT_EQ(verdict.retry_after, Verdict::kNever);
    }
    NewCounter();
  }
}

TEST_P(StoreTest, Peek_DecidesAsConsume_TakesNothing) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Check(kTenPerMinute, 10, Mode::kPeek).admitted);
    EXPECT_EQ(Check(kTenPerMinute, 0, Mode::kPeek).remaining, 10);
  }
  EXPECT_EQ(Admitted(kTenPerMinute, 10), 10);
  EXPECT_FALSE(Check(kTenPerMinute, 1, Mode::kPeek).admitted);
  EXPECT_TRUE(Check(kTenPerMinute, 0, Mode::kPeek).admitted);
}

TEST_P(StoreTest, SeveralLimits_OneDenies_NoneIsCharged) {
  const CounterSpec wide{"sluice:{t/r}:wide", kTenPerMinute};
  const CounterSpec narrow{"sluice:{t/r}:narrow", FixedWindow{.limit = 2, .window = seconds(60)}};
  for (int i = 0; i < 6; ++i) {
    BlockingCheck check({wide, narrow});
    EXPECT_EQ(check.RunOn(*store_).admitted, i < 2);
    EXPECT_TRUE(check.counters[0].verdict.admitted);
    EXPECT_EQ(check.counters[0].verdict.remaining, i < 2 ? 9 - i : 8);
    EXPECT_EQ(check.counters[1].verdict.admitted, i < 2);
  }
}

TEST_P(StoreTest, ShadowGroup_NeverChangesTheDecision_IsChargedOnlyIfTheCheckIsAdmitted) {
  const CounterSpec enforced{"sluice:{t/r}:on", FixedWindow{.limit = 3, .window = seconds(60)}, 0};
  const CounterSpec tight{"sluice:{t/s}:shadow", FixedWindow{.limit = 1, .window = seconds(60)}, 1};
  const CounterSpec loose{"sluice:{t/l}:shadow", kTenPerMinute, 2};
  for (int i = 0; i < 5; ++i) {
    BlockingCheck check({enforced, tight, loose});
    EXPECT_EQ(check.RunOn(*store_).admitted, i < 3);
    EXPECT_EQ(check.counters[1].verdict.admitted, i < 1);
    EXPECT_EQ(check.counters[2].verdict.remaining, std::max(7, 9 - i));
  }
}

TEST_P(StoreTest, Reset_OfAnyCounters_MakesThemNew_KeepsOthers) {
  const CounterSpec specs[] = {
      {"sluice:{t/r}:window", kTenPerMinute},
      {"sluice:{t/r}:bucket", kTenPerSecond},
      {"sluice:{t/r}:log", SlidingLog{.limit = 10, .window = seconds(60)}},
      {"sluice:{t/other}:window", kTenPerMinute},
  };
  const auto remaining = [&](const CounterSpec& spec) {
    BlockingCheck check({spec}, 1, Mode::kPeek);
    return check.RunOn(*store_).counters[0].verdict.remaining;
  };
  for (const CounterSpec& spec : specs) BlockingCheck({spec}, 7).RunOn(*store_);
  BlockingReset reset({specs[0].key, specs[1].key, specs[2].key, "sluice:{t/r}:never-used"});
  EXPECT_FALSE(reset.RunOn(*store_));
  EXPECT_EQ(remaining(specs[0]), 10);
  EXPECT_EQ(remaining(specs[1]), 20);
  EXPECT_EQ(remaining(specs[2]), 10);
  EXPECT_EQ(remaining(specs[3]), 3);
}

// A Lua call passes at most about 8,000 values, so the script passes longer lists in pieces of
// 4,000. A counter and its limit take 11 values in the call, 3 in the reply and 1 in the list of
// keys. Each count of counters brings one of these lists close to 4,000 or 8,000 values. The last
// counter is full after one check.
TEST_P(StoreTest, CheckOfVeryManyCounters_IsDecidedAsOne) {
  for (const int count : {1, 361, 362, 725, 726, 1333, 2667, 4001, 8001}) {
    SCOPED_TRACE(count);
    std::vector<CounterSpec> specs;
    for (int i = 1; i <= count; ++i) {
      const std::int64_t burst = i == count ? 1 : 5;
      specs.push_back({fmt::format("sluice:{{t/many/{}}}:{}", count, i),
                       TokenBucket{.rate = 1, .period = seconds(60), .burst = burst}});
    }
    for (const bool admitted : {true, false}) {
      BlockingCheck check(specs);
      check.RunOn(*store_);
      ASSERT_FALSE(check.failure());
      EXPECT_EQ(check.admitted, admitted);
      const auto as_expected = [&](const CounterCheck& counter) {
        const bool last = &counter == &check.counters.back();
        return counter.verdict.admitted == (admitted || !last) &&
               counter.verdict.remaining == (last ? 0 : 4);
      };
      EXPECT_TRUE(std::all_of(check.counters.begin(), check.counters.end(), as_expected));
    }
  }
}

TEST_P(StoreTest, ClockSlightlyBehind_TimeStandsStill) {
  EXPECT_EQ(Admitted(kTenPerSecond, 20), 20);
  clock_.Advance(-milliseconds(900));
  const Verdict denied = Check(kTenPerSecond);
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.retry_after, milliseconds(1000)) << "the clock must first catch up 900 ms";
  clock_.Advance(denied.retry_after);
  EXPECT_TRUE(Check(kTenPerSecond).admitted);
}

TEST_P(StoreTest, ClockIsReplacedByAnEarlierOne_CreatesNoQuotaAndBlocksNothing) {
  const FixedWindow aligned{
      .limit = 10, .window = seconds(60), .align = FixedWindow::Align::kClock};
  for (const Limit& limit : {Limit(kTenPerMinute), Limit(aligned), Limit(kTenPerSecond)}) {
    clock_.Set(kStart);
    EXPECT_GT(Admitted(limit, 25), 9);
    clock_.Advance(-hours(1));
    EXPECT_EQ(Admitted(limit, 5), 0) << "the clock's step back has added units";
    clock_.Advance(seconds(60));
    EXPECT_EQ(Admitted(limit, 5), 5) << "the clock's step back has blocked the counter";
    NewCounter();
  }
}

}  // namespace
}  // namespace sluice::test
