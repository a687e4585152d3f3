// PEEK, CHARGE and REFUND of each algorithm on every store. Concurrency is in
// conformance_leases_test.cc.
#include "tests/store/store_test.h"

namespace sluice::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class ModesTest : public StoreTest {
 protected:
  Verdict Charge(const Limit& limit, std::int64_t cost) {
    return Check(limit, cost, Mode::kCharge);
  }
  Verdict Refund(const Limit& limit, std::int64_t cost, std::optional<Time> charged_at = {}) {
    return Decide(limit, {.cost = cost, .mode = Mode::kRefund, .charged_at = charged_at});
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, ModesTest, EveryStore(), NameOfStore);

constexpr FixedWindow kFixed{.limit = 10, .window = seconds(60)};
constexpr SlidingLog kLog{.limit = 10, .window = seconds(60)};
constexpr SlidingWindow kWindow{.limit = 10, .window = seconds(60), .segments = 6};
constexpr TokenBucket kTokens{.rate = 1, .period = seconds(1), .burst = 10};
constexpr TokenBucket kBorrowing{.rate = 1, .period = seconds(1), .burst = 10, .borrows = true};
constexpr WarmingBucket kWarming{.rate = 1, .period = seconds(1), .warmup = seconds(30)};
constexpr LeakyBucket kQueue{.rate = 1, .period = seconds(1), .queue = 9};
constexpr LeakyBucket kNoDelay{.rate = 1, .period = seconds(1), .queue = 9, .delays = false};

TEST_P(ModesTest, Peek_OfEachAlgorithm_DecidesAsConsume_TakesNothing) {
  for (const Limit& limit : {Limit(kFixed), Limit(kLog), Limit(kWindow), Limit(kTokens),
                             Limit(kBorrowing), Limit(kWarming), Limit(kQueue), Limit(kNoDelay)}) {
    SCOPED_TRACE(limit.index());
    NewCounter();
    for (const std::int64_t cost : {3, 5, 4, 11, 1}) {
      const Verdict once = Peek(limit, cost);
      EXPECT_EQ(Peek(limit, cost), once);
      const Verdict taken = Check(limit, cost);
      EXPECT_EQ(once.admitted, taken.admitted);
      EXPECT_EQ(once.wait, taken.wait);
      if (!taken.admitted) {
        EXPECT_EQ(once, taken);
      }
    }
  }
}

struct ChargeRow {
  const char* what;
  Limit limit;
  Duration retry_after;  // for one more unit, after 13 were charged to a limit of 10
};

TEST_P(ModesTest, Charge_BeyondTheLimit_CountsEvenIfDenied) {
  const ChargeRow rows[] = {
      {"fixed window", kFixed, seconds(60)},           {"sliding log", kLog, seconds(60)},
      {"sliding window", kWindow, seconds(70)},        {"token bucket", kTokens, seconds(4)},
      {"bucket that borrows", kBorrowing, seconds(3)}, {"queue", kQueue, seconds(4)},
      {"queue without delay", kNoDelay, seconds(4)},
  };
  for (const ChargeRow& row : rows) {
    SCOPED_TRACE(row.what);
    NewCounter();
    EXPECT_TRUE(Charge(row.limit, 8).admitted);
    EXPECT_EQ(Peek(row.limit).remaining, 2);
    const Verdict charged = Charge(row.limit, 5);
    EXPECT_EQ(charged.admitted, row.limit == Limit(kBorrowing));
    EXPECT_EQ(charged.remaining, 0);
    EXPECT_EQ(charged.dropped, 0);
    EXPECT_EQ(Check(row.limit).retry_after, row.retry_after);
    ExpectOpensAfter(row.limit, row.retry_after);
  }
}

TEST_P(ModesTest, Charge_OfAWarmingBucket_AddsToItsDebt) {
  EXPECT_TRUE(Check(kWarming).admitted);
  EXPECT_FALSE(Charge(kWarming, 14).admitted);
  const Duration debt = Peek(kWarming).retry_after;
  EXPECT_NEAR(static_cast<double>(debt.count()), 30e6, 2)
      << "the price of all units that a cold bucket stores";
  EXPECT_EQ(Charge(kWarming, 5).retry_after, debt + seconds(5));
}

TEST_P(ModesTest, Charge_BeyondTheMaximumDebt_IsDroppedAndReported) {
  const Verdict charged = Charge(kTokens, 1000);
  EXPECT_EQ(charged.dropped, 1000 - (10 + 600))
      << "the units that it held, and ten minutes of debt";
  EXPECT_EQ(Charge(kTokens, 7).dropped, 7);
  EXPECT_EQ(Check(kTokens).retry_after, minutes(10) + seconds(1));
  NewCounter();
  EXPECT_EQ(Charge(kFixed, kMaxCost).dropped, kMaxCost - kMaxProduct);
}

TEST_P(ModesTest, Charge_OfSeveralLimits_OneDenies_AllAreCharged) {
  const CounterSpec wide{"sluice:{t/r}:wide", kFixed};
  const CounterSpec narrow{"sluice:{t/r}:narrow", FixedWindow{.limit = 2, .window = seconds(60)}};
  const CounterSpec shadow{"sluice:{t/s}:shadow", kLog, 1};
  for (int i = 0; i < 4; ++i) {
    BlockingCheck check({wide, narrow, shadow}, 1, Mode::kCharge);
    EXPECT_EQ(check.RunOn(*store_).admitted, i < 2);
    EXPECT_TRUE(check.counters[0].verdict.admitted);
    EXPECT_EQ(check.counters[0].verdict.remaining, 9 - i);
    EXPECT_EQ(check.counters[1].verdict.admitted, i < 2);
    EXPECT_EQ(check.counters[2].verdict.remaining, 9 - i);
  }
  BlockingCheck check({narrow, shadow}, 9, Mode::kCharge);
  EXPECT_FALSE(check.RunOn(*store_).admitted);
  EXPECT_FALSE(check.counters[1].verdict.admitted);
}

TEST_P(ModesTest, Refund_GivesBackWhatWasTaken_AndNoMore) {
  for (const Limit& limit : {Limit(kFixed), Limit(kLog), Limit(kWindow), Limit(kTokens),
                             Limit(kBorrowing), Limit(kNoDelay)}) {
    SCOPED_TRACE(limit.index());
    NewCounter();
    EXPECT_EQ(Refund(limit, 5).remaining, 10) << "nothing was taken";
    Check(limit, 8);
    EXPECT_EQ(Refund(limit, 3).remaining, 5);
    EXPECT_EQ(Refund(limit, 3).remaining, 8);
    EXPECT_EQ(Refund(limit, 100).remaining, 10);
    EXPECT_TRUE(Check(limit, 10).admitted);
    EXPECT_EQ(Peek(limit).remaining, 0);
  }
}

TEST_P(ModesTest, Refund_OfAWarmingBucket_ReducesItsDebt) {
  Check(kWarming, 15);
  const Duration debt = Peek(kWarming).retry_after;
  Refund(kWarming, 10);
  EXPECT_EQ(Peek(kWarming).retry_after, debt - seconds(10));
  Refund(kWarming, 1000);
  EXPECT_TRUE(Peek(kWarming).admitted);
}

TEST_P(ModesTest, Refund_OfSlidingAlgorithms_GivesTheOldestBackFirst) {
  for (const Limit& limit : {Limit(kLog), Limit(kWindow)}) {
    SCOPED_TRACE(limit.index());
    NewCounter();
    Check(limit, 5);
    clock_.Advance(seconds(30));
    Check(limit, 5);
    EXPECT_EQ(Refund(limit, 5).remaining, 5);
    clock_.Advance(seconds(60) - Duration(1));
    EXPECT_EQ(Peek(limit).remaining, 5) << "the refund must give back the oldest units";
    EXPECT_EQ(Refund(limit, 2).remaining, 7);
  }
}

TEST_P(ModesTest, Refund_OfAWindowThatHasEnded_GivesNothingBack) {
  for (const Limit& limit : {Limit(kFixed), Limit(kLog), Limit(kWindow)}) {
    SCOPED_TRACE(limit.index());
    NewCounter();
    const Time first = clock_.Now();
    clock_.Advance(Check(limit, 5).reset_after);
    const Time second = clock_.Now();
    Check(limit, 4);
    EXPECT_EQ(Refund(limit, 5, first).remaining, 6);
    EXPECT_EQ(Refund(limit, 3, second).remaining, 9);
  }
}

TEST_P(ModesTest, ChargeAndRefund_ClockWasReplaced_CountersMoveToTheNewTimeOnce) {
  Charge(kTokens, 25);
  clock_.Advance(-std::chrono::hours(1));
  EXPECT_EQ(Charge(kTokens, 1).retry_after, seconds(17));
  clock_.Advance(seconds(2));
  EXPECT_EQ(Refund(kTokens, 4).remaining, 0);
  EXPECT_EQ(Peek(kTokens).retry_after, seconds(11));
}

}  // namespace
}  // namespace sluice::test
