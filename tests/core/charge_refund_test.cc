// CHARGE and REFUND: counters beyond their limit, and refunds.
#include <gtest/gtest.h>

#include "tests/core/every_limit.h"
#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::vector<NamedLimit> LimitsWith(Mode mode) {
  std::vector<NamedLimit> limits = EveryLimit();
  std::erase_if(limits, [&](const NamedLimit& named) { return !Supports(named.limit, mode); });
  return limits;
}

TEST(Supports, LeasesCannotBeCharged_QueuePlacesCannotBeRefunded) {
  EXPECT_EQ(LimitsWith(Mode::kCharge).size(), EveryLimit().size() - 2);
  EXPECT_EQ(LimitsWith(Mode::kRefund).size(), EveryLimit().size() - 3);
}

class ChargeTest : public testing::TestWithParam<NamedLimit> {};
INSTANTIATE_TEST_SUITE_P(Limits, ChargeTest, testing::ValuesIn(LimitsWith(Mode::kCharge)),
                         testing::PrintToStringParamName());

TEST_P(ChargeTest, AnyCharge_ReportsWhatConsumeWouldDecide_TakesTheUnits) {
  Arrivals arrivals(4);
  SimulatedCounter counter(GetParam().limit);
  int denied = 0;
  for (int i = 0; i < 1000; ++i) {
    counter.now += arrivals.Gap();
    const std::int64_t cost = arrivals.Cost();
    const Verdict would = counter.Peek(cost);
    const Verdict charged = counter.Charge(cost);
    ASSERT_EQ(charged.admitted, would.admitted);
    ASSERT_EQ(charged.dropped, 0);
    // The answer has the values after the charge. The next check gets the same values.
    const Verdict next = counter.Peek(cost);
    ASSERT_EQ(next.remaining, charged.remaining);
    ASSERT_EQ(next.reset_after, charged.reset_after);
    ASSERT_GE(next.reset_after, would.reset_after);
    denied += would.admitted ? 0 : 1;
  }
  EXPECT_GT(denied, 100);
}

TEST_P(ChargeTest, ChargeBeyondTheMaximum_ExcessIsDroppedAndReported) {
  SimulatedCounter counter(GetParam().limit);
  const Verdict first = counter.Charge(kMaxCost);
  EXPECT_FALSE(first.admitted);
  EXPECT_GT(first.dropped, 0);
  EXPECT_LT(first.dropped, kMaxCost);
  // A warming bucket limits a charge as if each unit had the price of a cold bucket, which is the
  // highest price. So the first charge leaves some room.
  for (int i = 0; i < 30; ++i) counter.Charge(kMaxCost);
  EXPECT_EQ(counter.Charge(5).dropped, 5) << "the debt has reached its maximum";
  EXPECT_FALSE(counter.Peek(0).admitted) << "beyond the limit, even a cost of 0 is denied";
  EXPECT_EQ(counter.Peek(0).remaining, 0);
}

struct DebtRow {
  const char* what;
  Limit limit;
  std::int64_t charged;  // how many of the kMaxCost units are charged
  Duration retry_after;  // for a check of one unit, after the charge
};

TEST(Charge, DebtIsBounded_RetryAfterIsTheEndOfTheDebt) {
  const DebtRow rows[] = {
      {"ten minutes' worth", TokenBucket{.rate = 10, .period = seconds(1), .burst = 20}, 20 + 6000,
       seconds(600) + milliseconds(100)},
      {"ten bursts", TokenBucket{.rate = 10, .period = minutes(1), .burst = 500}, 500 + 5000,
       hours(8) + minutes(20) + seconds(6)},
      {"2^52 in 1/period",
       TokenBucket{.rate = TokenBucket::kMaxRate, .period = seconds(1), .burst = 1},
       1 + kMaxProduct / 1'000'000, Duration(60'000'001)},
      {"a queue and ten minutes", LeakyBucket{.rate = 10, .period = seconds(1), .queue = 19},
       20 + 6000, seconds(600) + milliseconds(100)},
      {"ten minutes at the price of a cold bucket",
       WarmingBucket{.rate = 10, .period = seconds(1), .warmup = seconds(3)}, 2000,
       // A unit costs at most 3 · 0.1 s. Of the 2,000 units, only 15 cost more than 0.1 s.
       milliseconds(200'000 + 1500)},
      {"2^52 units", FixedWindow{.limit = 10, .window = seconds(60)}, kMaxProduct, seconds(60)},
      {"2^52 units", SlidingLog{.limit = 10, .window = seconds(60)}, kMaxProduct, seconds(60)},
      {"2^52 units", SlidingWindow{.limit = 10, .window = seconds(60), .segments = 6}, kMaxProduct,
       seconds(70)},
  };
  for (const DebtRow& row : rows) {
    SCOPED_TRACE(row.what);
    SimulatedCounter counter(row.limit);
    EXPECT_EQ(counter.Charge(kMaxCost).dropped, kMaxCost - row.charged);
    EXPECT_EQ(counter.Peek().retry_after, row.retry_after);
    counter.now += row.retry_after;
    EXPECT_TRUE(counter.Consume().admitted);
  }
}

class RefundTest : public testing::TestWithParam<NamedLimit> {};
INSTANTIATE_TEST_SUITE_P(Limits, RefundTest, testing::ValuesIn(LimitsWith(Mode::kRefund)),
                         testing::PrintToStringParamName());

TEST_P(RefundTest, Refund_GivesBackWhatWasTaken) {
  SimulatedCounter counter(GetParam().limit);
  counter.now += seconds(5);
  for (int i = 0; i < 100; ++i) {
    const Verdict before = counter.Peek(0);
    if (!counter.Consume(3).admitted) break;
    if (std::holds_alternative<WarmingBucket>(GetParam().limit))
      break;  // its refund reduces only debt
    counter.Refund(3);
    ASSERT_EQ(counter.Peek(0).remaining, before.remaining);
    counter.Consume(1);
  }
}

TEST_P(RefundTest, RefundOfMoreThanWasTaken_LeavesNoMoreThanTheLimit) {
  SimulatedCounter fresh(GetParam().limit);
  SimulatedCounter counter(GetParam().limit);
  for (int i = 0; i < 100 && counter.Consume().admitted; ++i) {
  }
  const Verdict refund = counter.Refund(kMaxCost);
  EXPECT_TRUE(refund.admitted);
  EXPECT_TRUE(counter.Consume().admitted);
  counter.Refund(kMaxCost);
  counter.Refund(kMaxCost);
  if (std::holds_alternative<WarmingBucket>(GetParam().limit)) {
    EXPECT_LT(counter.Peek().remaining, fresh.Peek().remaining)
        << "a refund does not cool the bucket";
    return;
  }
  const std::int64_t limit = fresh.Peek().limit;
  EXPECT_EQ(counter.Peek().remaining, limit);
  if (!counter.Consume(limit).admitted) ADD_FAILURE() << "the counter has less than its limit";
  EXPECT_EQ(counter.Peek().remaining, 0) << "the counter had more than its limit";
}

// After a refund, the newest units stay. They leave the window last.
TEST(Refund, SlidingAlgorithms_GiveTheOldestBackFirst) {
  for (const Limit& limit : {Limit(SlidingLog{.limit = 10, .window = seconds(60)}),
                             Limit(SlidingWindow{.limit = 10, .window = seconds(60)})}) {
    SimulatedCounter counter(limit);
    counter.Consume(5);
    counter.now += seconds(30);
    counter.Consume(5);
    EXPECT_EQ(counter.Refund(5).remaining, 5);
    counter.now += seconds(60) - Duration(1);
    EXPECT_EQ(counter.Peek().remaining, 5) << "the newest were given back";
    EXPECT_EQ(counter.Refund(2).remaining, 7) << "only a part of an entry";
    counter.now += seconds(7);
    EXPECT_EQ(counter.Peek().remaining, 10);
  }
}

TEST(Refund, OfUnitsWhoseWindowHasEnded_GivesNothingBack) {
  const Limit limits[] = {
      FixedWindow{.limit = 10, .window = seconds(60)},
      FixedWindow{.limit = 10, .window = seconds(60), .align = FixedWindow::Align::kClock},
      FixedWindow{.limit = 10, .align = FixedWindow::Align::kMonth},
      SlidingLog{.limit = 10, .window = seconds(60)},
      SlidingWindow{.limit = 10, .window = seconds(60)},
  };
  for (const Limit& limit : limits) {
    SimulatedCounter counter(limit);
    const Time first = counter.now;
    counter.Consume(5);
    counter.now += counter.Peek().reset_after;
    const Time second = counter.now;
    counter.Consume(4);
    EXPECT_EQ(counter.Refund(5, first).remaining, 6) << "this window has ended";
    EXPECT_EQ(counter.Refund(3, second).remaining, 9) << "this window is open";
    EXPECT_EQ(counter.Refund(1).remaining, 10) << "without the time of the charge";
  }
}

TEST(Refund, OfABucket_PaysDebtThenFillsToTheBurst) {
  SimulatedCounter counter(TokenBucket{.rate = 10, .period = seconds(1), .burst = 20});
  counter.Charge(50);
  EXPECT_EQ(counter.Refund(25).remaining, 0);
  EXPECT_EQ(counter.Refund(10).remaining, 5);
  EXPECT_EQ(counter.Refund(100).remaining, 20);
}

TEST(Refund, LeakyBucketWithoutDelay_NeverGoesBelowEmpty) {
  SimulatedCounter counter(
      LeakyBucket{.rate = 10, .period = seconds(1), .queue = 4, .delays = false});
  counter.Consume(4);
  EXPECT_EQ(counter.Refund(3).remaining, 4);
  EXPECT_EQ(counter.Refund(3).remaining, 5);
  EXPECT_TRUE(counter.Consume(5).admitted);
  EXPECT_FALSE(counter.Consume().admitted);
}

TEST(Refund, WarmingBucket_RefundsOnlyDebt) {
  SimulatedCounter counter(WarmingBucket{.rate = 10, .period = seconds(1), .warmup = seconds(3)});
  counter.Consume(30);
  const Duration debt = counter.Peek().retry_after;
  counter.Refund(10);
  EXPECT_EQ(counter.Peek().retry_after, debt - seconds(1)) << "at the price of a warm bucket";
  counter.Refund(1000);
  EXPECT_TRUE(counter.Peek().admitted);
}

}  // namespace
}  // namespace sluice
