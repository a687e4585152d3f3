// Each algorithm on every store: its admissions and its verdicts. The plain forms of fixed_window
// and token_bucket are in conformance_test.cc, concurrency is in conformance_leases_test.cc.
#include "tests/store/store_test.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class AlgorithmTest : public StoreTest {};
INSTANTIATE_TEST_SUITE_P(Stores, AlgorithmTest, EveryStore(), NameOfStore);

constexpr SlidingLog kLog{.limit = 10, .window = seconds(60)};
constexpr SlidingWindow kWindow{.limit = 10, .window = seconds(60), .segments = 6};
constexpr TokenBucket kTokens{.rate = 1, .period = seconds(1), .burst = 20};
constexpr TokenBucket kBorrowing{.rate = 1, .period = seconds(1), .burst = 5, .borrows = true};
constexpr WarmingBucket kWarming{.rate = 1, .period = seconds(1), .warmup = seconds(30)};
constexpr LeakyBucket kQueue{.rate = 2, .period = seconds(1), .queue = 4};
constexpr LeakyBucket kNoDelay{.rate = 2, .period = seconds(1), .queue = 4, .delays = false};

TEST_P(AlgorithmTest, SlidingLog_DeniesUntilEnoughOfTheOldestHaveLeft) {
  EXPECT_EQ(Check(kLog, 4),
            (Verdict{.admitted = true, .limit = 10, .remaining = 6, .reset_after = seconds(60)}));
  clock_.Advance(seconds(20));
  EXPECT_EQ(Check(kLog, 6).reset_after, seconds(60));
  EXPECT_EQ(Check(kLog, 5).retry_after, seconds(60)) << "four free units are not enough";
  EXPECT_EQ(Check(kLog, 3).retry_after, seconds(40));
  ExpectOpensAfter(kLog, seconds(40));
  EXPECT_EQ(Check(kLog, 3).remaining, 1);
}

TEST_P(AlgorithmTest, SlidingWindow_UnitsLeaveWithTheirSegment) {
  EXPECT_EQ(Check(kWindow, 4),
            (Verdict{.admitted = true, .limit = 10, .remaining = 6, .reset_after = seconds(70)}));
  clock_.Advance(seconds(25));
  EXPECT_EQ(Check(kWindow, 6).reset_after, seconds(65))
      << "the segment of these units began 5 s ago";
  EXPECT_EQ(Check(kWindow, 5).retry_after, seconds(65)) << "four free units are not enough";
  EXPECT_EQ(Check(kWindow, 3).retry_after, seconds(45));
  ExpectOpensAfter(kWindow, seconds(45));
  EXPECT_EQ(Check(kWindow, 3).remaining, 1);
}

TEST_P(AlgorithmTest, TokenBucket_MaxWait_ReservesFutureTokens) {
  EXPECT_EQ(Check(kTokens, 20).wait, seconds(0));
  const Verdict denied = Decide(kTokens, {.cost = 3, .max_wait = seconds(2)});
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.retry_after, seconds(1));
  const Ask looks{.cost = 3, .mode = Mode::kPeek, .max_wait = seconds(3)};
  EXPECT_EQ(Decide(kTokens, looks).wait, seconds(3));
  EXPECT_EQ(Decide(kTokens, {.cost = 3, .max_wait = seconds(3)}).wait, seconds(3));
  EXPECT_EQ(Decide(kTokens, {.cost = 1, .max_wait = hours(1)}).wait, seconds(4));
  EXPECT_EQ(Check(kTokens).retry_after, seconds(5));
  EXPECT_FALSE(Decide(kTokens, {.cost = 1, .max_wait = seconds(0)}).admitted);
  ExpectOpensAfter(kTokens, seconds(5));
}

TEST_P(AlgorithmTest, TokenBucketThatBorrows_NextCheckPays) {
  const Verdict large = Check(kBorrowing, 50);
  EXPECT_TRUE(large.admitted);
  EXPECT_EQ(large.wait, seconds(0));
  EXPECT_EQ(large.remaining, 0);
  EXPECT_EQ(large.reset_after, seconds(50));
  EXPECT_EQ(Check(kBorrowing, 3).retry_after, seconds(45));
  EXPECT_EQ(Decide(kBorrowing, {.cost = 3, .max_wait = seconds(45)}).wait, seconds(45));
  EXPECT_EQ(Decide(kBorrowing, {.max_wait = hours(1)}).wait, seconds(48));
  ExpectOpensAfter(kBorrowing, seconds(49));
}

TEST_P(AlgorithmTest, WarmingBucket_CostsThreeTimesAsMuchWhenCold_CoolsDownAgain) {
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(Peek(kWarming).remaining, 30);
    const Verdict first = Check(kWarming);
    EXPECT_TRUE(first.admitted);
    EXPECT_EQ(first.limit, 30);
    EXPECT_EQ(first.remaining, 0) << "the bucket is in debt";
    // The price of a unit begins at 3 s and falls by 2/15 s per unit. The first unit costs the mean
    // of the price before it and the price after it, rounded up.
    EXPECT_EQ(Check(kWarming).retry_after, Duration(2'933'334));
    EXPECT_EQ(Decide(kWarming, {.cost = 14, .max_wait = hours(1)}).wait, Duration(2'933'334));
    const Duration warm = Peek(kWarming).retry_after;
    EXPECT_NEAR(static_cast<double>(warm.count()), 30e6, 2) << "it is warm after its warmup";
    ExpectOpensAfter(kWarming, warm);
    EXPECT_TRUE(Check(kWarming).admitted);
    EXPECT_EQ(Check(kWarming).retry_after, seconds(1));
    clock_.Advance(hours(1));
  }
}

// A counter outlives its rule: the next three tests find the state that another rule left.
constexpr WarmingBucket kWarmsInAnHour{.rate = 10, .period = seconds(1), .warmup = hours(1)};
constexpr WarmingBucket kWarmsInASecond{.rate = 10, .period = seconds(1), .warmup = seconds(1)};

TEST_P(AlgorithmTest, WarmingBucketInDebt_WarmupIsShortened_HasThePricesOfANewBucket) {
  const Duration fresh = Decide(kWarmsInASecond, {.mode = Mode::kCharge}).retry_after;
  EXPECT_EQ(fresh, milliseconds(280));
  NewCounter();
  EXPECT_TRUE(Check(kWarmsInAnHour).admitted);
  const Verdict owes = Peek(kWarmsInASecond);
  EXPECT_EQ(owes.reset_after, owes.retry_after) << "as cold as it can be";
  EXPECT_GT(owes.retry_after, seconds(0));
  EXPECT_EQ(Decide(kWarmsInASecond, {.mode = Mode::kCharge}).retry_after, owes.retry_after + fresh);
}

// A rule and its override have different rates.
TEST_P(AlgorithmTest, WarmingBucket_OverrideWithALowerRate_HasThePricesOfANewBucket) {
  WarmingBucket slow = kWarmsInASecond;
  slow.rate = 1;
  const Duration fresh = Decide(slow, {.mode = Mode::kCharge}).retry_after;
  NewCounter();
  EXPECT_TRUE(Check(kWarmsInASecond).admitted);
  const Duration owed = Peek(slow).retry_after;
  EXPECT_EQ(Decide(slow, {.mode = Mode::kCharge}).retry_after, owed + fresh);
}

TEST_P(AlgorithmTest, WarmingBucket_WarmupShortenedAndClockSetBack_FailsNoCheck) {
  const CounterSpec other{"sluice:{t/r}:other", kTokens};
  const CounterSpec before{"sluice:{t/r}:warming", kWarmsInAnHour};
  const CounterSpec after{"sluice:{t/r}:warming", kWarmsInASecond};
  EXPECT_TRUE(BlockingCheck({other, before}).RunOn(*store_).admitted);
  clock_.Advance(-seconds(5));
  BlockingCheck check({other, after});
  check.RunOn(*store_);
  EXPECT_FALSE(check.failure());
  EXPECT_FALSE(check.admitted);
  EXPECT_EQ(check.counters[0].verdict.remaining, 19) << "charged, though denied";
}

TEST_P(AlgorithmTest, LeakyBucket_SixAtOnce_FiveAreSpacedEvenly) {
  for (const int wait : {0, 500, 1000, 1500, 2000}) {
    EXPECT_EQ(Peek(kQueue).wait, milliseconds(wait));
    const Verdict verdict = Check(kQueue);
    EXPECT_TRUE(verdict.admitted);
    EXPECT_EQ(verdict.wait, milliseconds(wait));
    EXPECT_EQ(verdict.limit, 5);
    EXPECT_EQ(verdict.remaining, 4 - wait / 500);
    EXPECT_EQ(verdict.reset_after, milliseconds(wait + 500));
  }
  EXPECT_EQ(Check(kQueue).retry_after, milliseconds(500));
  EXPECT_EQ(Decide(kQueue, {.max_wait = seconds(1)}).retry_after, milliseconds(1500));
  ExpectOpensAfter(kQueue, milliseconds(500));
}

TEST_P(AlgorithmTest, MaxDelay_BoundsLeakyBucketsAndMakesNoOtherLimitWait) {
  for (const Limit& limit : {Limit(kTokens), Limit(kWarming)}) {
    NewCounter();
    while (Check(limit).admitted) {
    }
    const auto retry_after = Check(limit).retry_after;
    const Verdict denied = Decide(limit, {.max_wait = hours(1), .only_delays = true});
    EXPECT_FALSE(denied.admitted);
    EXPECT_EQ(denied.retry_after, retry_after);
    EXPECT_TRUE(Decide(limit, {.max_wait = hours(1)}).admitted);
  }
  NewCounter();
  for (int i = 0; i < 2; ++i) Check(kQueue);
  const Ask asks{.max_wait = seconds(1), .only_delays = true};
  EXPECT_EQ(Decide(kQueue, asks).wait, seconds(1));
  EXPECT_EQ(Decide(kQueue, asks).retry_after, milliseconds(500));
  EXPECT_FALSE(Decide(kQueue, {.max_wait = seconds(0), .only_delays = true}).admitted);
  EXPECT_TRUE(Check(kQueue).admitted);
}

TEST_P(AlgorithmTest, LeakyBucketNoDelay_SixAtOnce_FiveStartAtOnce) {
  for (int i = 0; i < 5; ++i) {
    const Verdict verdict = Check(kNoDelay);
    EXPECT_TRUE(verdict.admitted);
    EXPECT_EQ(verdict.wait, seconds(0));
    EXPECT_EQ(verdict.remaining, 4 - i);
  }
  EXPECT_EQ(Check(kNoDelay).retry_after, milliseconds(500));
  ExpectOpensAfter(kNoDelay, milliseconds(500));
}

TEST_P(AlgorithmTest, AnyAlgorithm_ClockStepsBack_AddsNoUnitsAndDelaysByTheStepAtMost) {
  for (const Limit& limit : {Limit(kLog), Limit(kWindow), Limit(kTokens), Limit(kBorrowing),
                             Limit(kWarming), Limit(kQueue), Limit(kNoDelay)}) {
    for (const Duration step : {milliseconds(900), milliseconds(3'600'000)}) {
      SCOPED_TRACE(testing::Message() << limit.index() << " back by " << step.count());
      NewCounter();
      Admitted(limit, 25);
      const Duration before = Peek(limit).retry_after;
      clock_.Advance(-step);
      EXPECT_FALSE(Check(limit).admitted) << "the step has added units";
      const Duration after = Peek(limit).retry_after;
      EXPECT_EQ(after, before + (step > kMaxSkew ? Duration(0) : step));
      ExpectOpensAfter(limit, after);
    }
  }
}

}  // namespace
}  // namespace sluice::test
