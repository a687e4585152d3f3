// The promises of token_bucket (with and without borrowing and waiting) and of leaky_bucket, on
// random and fixed histories.
#include <gtest/gtest.h>

#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kLargestCost = 3;  // the largest cost that Arrivals draws
const std::vector<std::optional<Duration>> kWaits{
    {}, Duration(0), Duration(1), milliseconds(50), seconds(1), seconds(10)};

constexpr TokenBucket kTokens{.rate = 7, .period = seconds(1), .burst = 10};

TEST(TokenBucket, EveryInterval_AdmitsAtMostBurstPlusRateTimesLength) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Passages passed = RandomPassages(kTokens, seed);
    ASSERT_GT(passed.size(), 200u);
    ASSERT_LE(MostBeyond(passed, {kTokens.rate, kTokens.period}),
              kTokens.burst * kTokens.period.count());
  }
}

TEST(TokenBucket, GreedyCaller_GetsAllThatIsPromised) {
  SimulatedCounter counter(kTokens);
  std::int64_t units = 0;
  for (int i = 0; i <= 100'000; ++i, counter.now += milliseconds(1)) {
    while (counter.Consume().admitted) ++units;
  }
  EXPECT_EQ(units, 10 + 7 * 100);
}

// Random checks, mostly close together, sometimes with gaps in which the bucket fills. Many of the
// admitted checks are undone later.
struct UndoneCheck {
  Passage check;
  TokenBucket::Snapshot before;
  Time undone_at;
};
struct UndoHistory {
  Passages passed;
  std::vector<UndoneCheck> undone;
};

UndoHistory RandomUndos(const TokenBucket& limit, std::size_t most_at_once, std::uint32_t seed) {
  Arrivals arrivals(seed);
  UndoHistory history;
  std::vector<UndoneCheck> pending;
  TokenBucket::State state;
  Time now{hours(1)};
  state = limit.New(now);
  for (int i = 0; i < 600; ++i) {
    now += (arrivals.Below(4) == 0 ? 40 : 1) * arrivals.Gap();
    limit.Advance(state, now);
    const std::int64_t cost = arrivals.Cost();
    const bool admits = limit.Grants(state, {{}, cost}, 1) > 0;
    if (admits && pending.size() < most_at_once && arrivals.Below(3) > 0) {
      pending.push_back({{now, cost}, TokenBucket::Summarize(state, 0, 0, now), {}});
    } else if (admits) {
      history.passed.push_back({now, cost});
    }
    if (admits) limit.Take(state, cost, 1);
    if (pending.empty() || arrivals.Below(2) == 0) continue;
    const auto next = pending.begin() + arrivals.Below(static_cast<std::int64_t>(pending.size()));
    limit.Undo(state, next->check.cost, next->before);
    next->undone_at = now;
    history.undone.push_back(*next);
    pending.erase(next);
  }
  return history;
}

// The units of the checks that were under way when the interval began, and were undone within it.
std::int64_t GivenBack(const UndoHistory& history, Time begin, Time end) {
  std::int64_t units = 0;
  for (const UndoneCheck& undone : history.undone) {
    const bool in_it =
        undone.check.at <= begin && begin <= undone.undone_at && undone.undone_at <= end;
    if (in_it) units += undone.check.cost;
  }
  return units;
}

// Considers only checks that were undone later. Returns the start of the longest interval that ends
// at `begin` and during which at least one of these checks was always under way.
Time UnderWaySince(const UndoHistory& history, Time begin) {
  for (bool earlier = true; earlier;) {
    earlier = false;
    for (const UndoneCheck& undone : history.undone) {
      if (undone.check.at >= begin || undone.undone_at < begin) continue;
      begin = undone.check.at;
      earlier = true;
    }
  }
  return begin;
}

TEST(TokenBucket, OneCheckAtATimeIsUndone_EveryIntervalAdmitsAtMostBurstPlusRateTimesLength) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const UndoHistory history = RandomUndos(kTokens, 1, seed);
    ASSERT_GT(history.undone.size(), 50u);
    ASSERT_LE(MostBeyond(history.passed, {kTokens.rate, kTokens.period}),
              kTokens.burst * kTokens.period.count());
  }
}

TEST(TokenBucket, ManyUndos_ExcessIsAtMostTheUnitsGivenBack_AndAtMostTheRefillMeanwhile) {
  int with_more = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const UndoHistory history = RandomUndos(kTokens, 100, seed);
    ASSERT_GT(history.undone.size(), 50u);
    for (std::size_t from = 0; from < history.passed.size(); ++from) {
      const Time begin = history.passed[from].at;
      std::int64_t units = 0;
      for (std::size_t to = from; to < history.passed.size(); ++to) {
        const Time end = history.passed[to].at;
        units += history.passed[to].cost;
        const std::int64_t more =
            (units - kTokens.burst) * kTokens.period.count() - kTokens.rate * (end - begin).count();
        if (more <= 0) continue;
        ++with_more;
        const Duration under_way = end - UnderWaySince(history, begin);
        ASSERT_LE(more, GivenBack(history, begin, end) * kTokens.period.count()) << seed;
        ASSERT_LE(more, kTokens.rate * under_way.count()) << seed;
      }
    }
  }
  EXPECT_GT(with_more, 0) << "no interval had an excess, so the test shows nothing";
}

TEST(TokenBucketThatWaits, EveryIntervalOfStarts_AdmitsAtMostBurstPlusRateTimesLength) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Passages passed = RandomPassages(kTokens, seed, kWaits);
    ASSERT_GT(passed.size(), 200u);
    ASSERT_LE(MostBeyond(passed, {kTokens.rate, kTokens.period}),
              kTokens.burst * kTokens.period.count());
  }
}

// No check waits longer than its max_wait. Checks start in the order in which they arrive. Checks
// that may wait 10 s use the full rate.
TEST(TokenBucketThatWaits, QueuesInOrder_WithinMaxWait_AtFullRate) {
  SimulatedCounter counter(kTokens);
  Time latest;
  std::int64_t units = 0;
  for (int i = 0; i < 2000; ++i, counter.now += milliseconds(50)) {
    const Duration max_wait = i % 3 == 0 ? milliseconds(i) : seconds(10);
    const Verdict verdict = counter.Consume(1 + i % 3, max_wait);
    if (!verdict.admitted) continue;
    units += 1 + i % 3;
    ASSERT_LE(verdict.wait, max_wait);
    ASSERT_GE(counter.now + verdict.wait, latest);
    latest = counter.now + verdict.wait;
  }
  EXPECT_GT(latest - counter.now, seconds(8));
  EXPECT_NEAR(static_cast<double>(units), 10 + 7 * (100 + 10), 10);
}

TEST(TokenBucketThatWaits, WithoutMaxWait_NeverWaits) {
  SimulatedCounter counter(kTokens);
  EXPECT_EQ(counter.Consume(10).wait, Duration(0));
  EXPECT_FALSE(counter.Consume().admitted);
  EXPECT_FALSE(counter.Consume(1, Duration(0)).admitted);
  // 1/7 s, rounded up to whole microseconds, is 142,858 µs.
  EXPECT_FALSE(counter.Consume(1, Duration(142'857)).admitted);
  EXPECT_EQ(counter.Consume(1, Duration(142'858)).wait, Duration(142'858));
}

TEST(TokenBucketThatBorrows, EveryInterval_AdmitsAtMostBurstPlusLargestCostPlusRateTimesLength) {
  TokenBucket limit = kTokens;
  limit.borrows = true;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Passages passed = RandomPassages(limit, seed, kWaits);
    ASSERT_GT(passed.size(), 200u);
    const std::int64_t beyond = MostBeyond(passed, {limit.rate, limit.period});
    ASSERT_LE(beyond, (limit.burst + kLargestCost) * limit.period.count());
    const Drip paid{.rate = limit.rate, .period = limit.period, .last_is_free = true};
    ASSERT_LE(MostBeyond(passed, paid), limit.burst * limit.period.count());
  }
}

TEST(TokenBucketThatBorrows, CostBeyondTheBurst_PassesAtOnce_TheNextWaits) {
  SimulatedCounter counter(
      TokenBucket{.rate = 10, .period = seconds(1), .burst = 5, .borrows = true});
  EXPECT_TRUE(counter.Consume(25).admitted);
  const Verdict denied = counter.Consume();
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.remaining, 0);
  EXPECT_EQ(denied.retry_after, seconds(2));
  EXPECT_EQ(counter.Consume(1, seconds(2)).wait, seconds(2));
}

// This bucket's debt is at most the tokens that it gains in ten minutes, even if a caller would
// wait longer.
TEST(TokenBucketThatBorrows, DebtIsFull_DeniesUntilThereIsRoom) {
  SimulatedCounter counter(
      TokenBucket{.rate = 10, .period = seconds(1), .burst = 5, .borrows = true});
  EXPECT_TRUE(counter.Consume(3000, hours(24)).admitted);
  EXPECT_TRUE(counter.Consume(3000, hours(24)).admitted);
  const Verdict denied = counter.Consume(6, hours(24));
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.retry_after, milliseconds(100));
  EXPECT_TRUE(counter.Consume(5, hours(24)).admitted);
}

constexpr LeakyBucket kLeaky{.rate = 7, .period = seconds(1), .queue = 9};

TEST(LeakyBucket, StartsOfAdmittedChecks_AreNeverFasterThanTheRate) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Passages passed = RandomPassages(kLeaky, seed, kWaits);
    ASSERT_GT(passed.size(), 200u);
    const Drip even{.rate = kLeaky.rate, .period = kLeaky.period, .last_is_free = true};
    ASSERT_LE(MostBeyond(passed, even), 0);
  }
}

TEST(LeakyBucket, NoDelay_EveryIntervalAdmitsAtMostQueuePlusOnePlusRateTimesLength) {
  LeakyBucket limit = kLeaky;
  limit.delays = false;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Passages passed = RandomPassages(limit, seed, kWaits);
    ASSERT_GT(passed.size(), 200u);
    ASSERT_LE(MostBeyond(passed, {limit.rate, limit.period}),
              (limit.queue + 1) * limit.period.count());
  }
}

TEST(LeakyBucket, GreedyCallers_GetAllThatIsPromised) {
  for (const bool delays : {true, false}) {
    LeakyBucket limit = kLeaky;
    limit.delays = delays;
    SimulatedCounter counter(limit);
    std::int64_t units = 0;
    for (int i = 0; i <= 100'000; ++i, counter.now += milliseconds(1)) {
      while (counter.Consume().admitted) ++units;
    }
    EXPECT_EQ(units, 10 + 7 * 100);
  }
}

TEST(LeakyBucket, MaxWait_BoundsTheWait_ZeroMeansNoWait) {
  SimulatedCounter counter(kLeaky);
  EXPECT_EQ(counter.Consume(3, Duration(0)).wait, Duration(0));
  EXPECT_FALSE(counter.Consume(1, Duration(0)).admitted);
  EXPECT_FALSE(counter.Consume(1, Duration(428'571)).admitted);
  // 3/7 s, rounded up to whole microseconds.
  EXPECT_EQ(counter.Consume(1, Duration(428'572)).wait, Duration(428'572));
  EXPECT_GT(counter.Consume(1, hours(24)).wait, Duration(428'572));
  EXPECT_FALSE(counter.Consume(6, hours(24)).admitted) << "the queue bounds the wait, too";
}

// The limit counts no units in the check: other units decide how long the caller waits.
TEST(Buckets, CheckOfNoUnits_DoesNotWaitForTheDebtOfOthers) {
  const Limit limits[] = {
      TokenBucket{.rate = 1, .period = seconds(1), .burst = 5},
      TokenBucket{.rate = 1, .period = seconds(1), .burst = 5, .borrows = true},
      WarmingBucket{.rate = 1, .period = seconds(1), .warmup = seconds(5)},
      LeakyBucket{.rate = 1, .period = seconds(1), .queue = 9},
  };
  for (const Limit& limit : limits) {
    SCOPED_TRACE(CounterTag(limit));
    SimulatedCounter counter(limit);
    counter.Consume(5, hours(1));
    counter.Consume(3, hours(1));
    EXPECT_GT(counter.Peek(1, hours(1)).wait, Duration(0));
    const Verdict none = counter.Consume(0, hours(1));
    EXPECT_TRUE(none.admitted);
    EXPECT_EQ(none.wait, Duration(0));
  }
}

// The example of docs/rules.md. In nginx, it is limit_req_zone rate=2r/s, limit_req burst=4.
TEST(LeakyBucket, SixAtOnce_BehavesLikeNginx) {
  SimulatedCounter counter(LeakyBucket{.rate = 2, .period = seconds(1), .queue = 4});
  for (const int wait : {0, 500, 1000, 1500, 2000}) {
    const Verdict verdict = counter.Consume();
    EXPECT_TRUE(verdict.admitted);
    EXPECT_EQ(verdict.wait, milliseconds(wait));
  }
  const Verdict sixth = counter.Consume();
  EXPECT_FALSE(sixth.admitted);
  EXPECT_EQ(sixth.retry_after, milliseconds(500));
}

// The same with nodelay.
TEST(LeakyBucket, SixAtOnceWithoutDelay_BehavesLikeNginx) {
  SimulatedCounter counter(
      LeakyBucket{.rate = 2, .period = seconds(1), .queue = 4, .delays = false});
  for (int i = 0; i < 5; ++i) {
    const Verdict verdict = counter.Consume();
    EXPECT_TRUE(verdict.admitted);
    EXPECT_EQ(verdict.wait, Duration(0));
  }
  EXPECT_FALSE(counter.Consume().admitted);
}

}  // namespace
}  // namespace sluice
