// Leases of units on every store: the units that a check takes under a lease, and the units that a
// settlement gives back or charges.
#include <fmt/format.h>

#include "tests/store/store_test.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TokenBucket kBucket{.rate = 1000, .period = seconds(1), .burst = 1000};
constexpr FixedWindow kSettledWindow{.limit = 1000, .window = hours(1)};
constexpr Concurrency kSlots{.limit = 5, .ttl = seconds(60)};

class SettleTest : public StoreTest {
 protected:
  using Specs = std::vector<CounterSpec>;
  using Pending = std::unique_ptr<BlockingCheck>;

  // The counters of one rule. They share one lease record.
  const CounterSpec bucket_{"sluice:{t/r}:bucket", kBucket};
  const CounterSpec window_{"sluice:{t/r}:window", kSettledWindow};
  const CounterSpec slots_{"sluice:{t/r}:slots", kSlots, 0, 1};
  // The counters of other rules. In a cluster, these counters are on other nodes.
  const CounterSpec second_{"sluice:{t/s}:window", kSettledWindow};
  const CounterSpec third_{"sluice:{t/u}:window", kSettledWindow};
  const Lease lease_ = MakeLease(1, seconds(60));

  Pending Make(const Specs& specs, const Lease& lease, Mode mode, std::int64_t units = 0) {
    auto check = std::make_unique<BlockingCheck>(specs, units, mode);
    check->lease = lease;
    check->leases_units = true;
    return check;
  }
  Pending Run(const Specs& specs, const Lease& lease, Mode mode, std::int64_t units = 0) {
    auto check = Make(specs, lease, mode, units);
    check->RunOn(*store_);
    EXPECT_FALSE(check->failure());
    return check;
  }
  Pending Take(const Specs& specs, std::int64_t units) {
    return Run(specs, lease_, Mode::kConsume, units);
  }
  Pending Settle(const Specs& specs, std::int64_t used) {
    Specs asked = specs;
    for (CounterSpec& spec : asked) spec.units = used;
    return Run(asked, lease_, Mode::kSettle);
  }
  std::int64_t Remaining(const CounterSpec& spec) {
    BlockingCheck peek({spec}, 0, Mode::kPeek);
    return peek.RunOn(*store_).counters[0].verdict.remaining;
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, SettleTest, EveryStore(), NameOfStore);

TEST_P(SettleTest, UsedLess_TheRestIsGivenBack_Once) {
  const Specs specs{bucket_, window_, slots_};
  EXPECT_TRUE(Take(specs, 400)->admitted);
  const auto settled = Settle(specs, 100);
  EXPECT_EQ(settled->settled, Settled::kSettled);
  EXPECT_EQ(settled->counters[0].held, 400);
  EXPECT_EQ(settled->counters[2].held, 1);
  EXPECT_EQ(settled->counters[1].verdict.remaining, 900) << "the state after the settlement";
  EXPECT_EQ(Remaining(bucket_), 900);
  EXPECT_EQ(Remaining(slots_), 5);

  const auto again = Settle(specs, 0);
  EXPECT_EQ(again->settled, Settled::kAlreadySettled);
  EXPECT_EQ(again->counters[0].held, Held::kNothing);
  EXPECT_EQ(Remaining(bucket_), 900);
  EXPECT_EQ(Remaining(window_), 900);
  clock_.Advance(kKnowsSettledFor);
  EXPECT_EQ(Settle(specs, 0)->settled, Settled::kNotFound);
}

TEST_P(SettleTest, UsedMore_TheDifferenceIsCharged_UpToTheMaximumDebt) {
  Take({bucket_, window_}, 400);
  Specs used{bucket_, window_};
  used[0].units = 2'000;
  used[1].units = kMaxCost;
  const auto settled = Run(used, lease_, Mode::kSettle);
  EXPECT_EQ(settled->settled, Settled::kSettled);
  EXPECT_EQ(settled->counters[0].verdict.dropped, 0);
  EXPECT_EQ(settled->counters[1].verdict.dropped, kMaxCost - kMaxProduct);
  clock_.Advance(seconds(1));
  EXPECT_EQ(Remaining(bucket_), 0) << "the bucket owed 1000, and 1000 were added since";
}

TEST_P(SettleTest, SettledAsTaken_OnlySlotsAreReleased) {
  Take({bucket_, window_, slots_}, 400);
  EXPECT_EQ(Settle({bucket_, window_, slots_}, kAsTaken)->settled, Settled::kSettled);
  EXPECT_EQ(Remaining(bucket_), 600);
  EXPECT_EQ(Remaining(window_), 600);
  EXPECT_EQ(Remaining(slots_), 5);
}

TEST_P(SettleTest, CountersOnSeveralNodes_AreSettledTogether) {
  const Specs specs{window_, second_, third_};
  EXPECT_TRUE(Take(specs, 400)->admitted);
  EXPECT_EQ(Settle(specs, 100)->settled, Settled::kSettled);
  for (const CounterSpec& spec : specs) EXPECT_EQ(Remaining(spec), 900) << spec.key;
  EXPECT_EQ(Settle(specs, 0)->settled, Settled::kAlreadySettled);
  for (const CounterSpec& spec : specs) EXPECT_EQ(Remaining(spec), 900) << spec.key;
}

// A check may take 0 units of a counter, although the caller uses some later.
TEST_P(SettleTest, NothingWasTakenFromACounter_UsedUnitsAreCharged) {
  Specs specs{window_, second_};
  specs[1].units = 0;
  EXPECT_TRUE(Take(specs, 400)->admitted);
  const auto settled = Settle(specs, 500);
  EXPECT_EQ(settled->settled, Settled::kSettled);
  EXPECT_EQ(settled->counters[1].held, 0);
  EXPECT_EQ(Remaining(window_), 500);
  EXPECT_EQ(Remaining(second_), 500);
}

TEST_P(SettleTest, DeniedCheck_NothingIsUnderALease) {
  EXPECT_FALSE(Take({window_, second_, bucket_}, 1001)->admitted);
  const auto open = Run({window_, second_, bucket_}, lease_, Mode::kInspect);
  EXPECT_NE(open->settled, Settled::kSettled);
  EXPECT_EQ(Settle({window_, second_, bucket_}, 500)->settled == Settled::kSettled, false);
  EXPECT_EQ(Remaining(window_), 1000);
}

// When one node denies, other nodes may already have charged their counters.
TEST_P(SettleTest, DeniedByOneNode_TheLeaseIsClosedOnAll) {
  BlockingCheck({third_}, 900).RunOn(*store_);
  EXPECT_FALSE(Take({window_, second_, third_}, 200)->admitted);
  EXPECT_NE(Settle({window_, second_, third_}, 100)->settled, Settled::kSettled);
  EXPECT_EQ(Remaining(window_), 1000);
  EXPECT_EQ(Remaining(second_), 1000);
  EXPECT_EQ(Remaining(third_), 100);
}

TEST_P(SettleTest, ShadowRuleThatDenies_IsNotUnderTheLease) {
  CounterSpec shadow{"sluice:{t/s}:shadow", FixedWindow{.limit = 100, .window = hours(1)}, 1};
  const Specs specs{window_, shadow};
  EXPECT_TRUE(Take(specs, 400)->admitted);
  const auto settled = Settle(specs, 500);
  EXPECT_EQ(settled->counters[1].held, Held::kNothing);
  EXPECT_EQ(Remaining(window_), 500);
  EXPECT_EQ(Remaining(shadow), 100);
}

TEST_P(SettleTest, UnsettledLease_StaysCharged_CanBeSettledUntilTenMinutesAfterItsEnd) {
  Take({window_, slots_}, 400);
  clock_.Advance(seconds(60));
  EXPECT_EQ(Remaining(slots_), 5);
  EXPECT_EQ(Remaining(window_), 600);
  clock_.Advance(kSettlesFor - Duration(1));
  EXPECT_EQ(Run({window_, slots_}, lease_, Mode::kInspect)->settled, Settled::kSettled);
  clock_.Advance(Duration(1));
  EXPECT_EQ(Settle({window_, slots_}, 0)->settled, Settled::kNotFound);
  EXPECT_EQ(Remaining(window_), 600);
}

TEST_P(SettleTest, RenewedLease_SlotsAndUnitsLastAnotherTtl) {
  const Specs specs{window_, slots_, second_};
  Take(specs, 400);
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(seconds(60) - Duration(1));
    const auto renewed = Run(specs, lease_, Mode::kRenew);
    EXPECT_TRUE(renewed->admitted);
    EXPECT_EQ(renewed->lease_ends, clock_.Now() + seconds(60));
    EXPECT_EQ(Remaining(slots_), 4);
  }
  clock_.Advance(seconds(60));
  EXPECT_FALSE(Run(specs, lease_, Mode::kRenew)->admitted) << "has ended";
  EXPECT_EQ(Settle(specs, 100)->settled, Settled::kSettled);
  EXPECT_FALSE(Run(specs, lease_, Mode::kRenew)->admitted) << "was settled";
  EXPECT_EQ(Remaining(second_), 900);
  EXPECT_FALSE(Run(specs, MakeLease(2, seconds(60)), Mode::kRenew)->admitted) << "never taken";
}

TEST_P(SettleTest, Inspect_ReportsTheUnitsHeld_ChangesNothing) {
  Take({bucket_, slots_}, 400);
  const Time ends = clock_.Now() + seconds(60);
  clock_.Advance(milliseconds(100));
  for (int i = 0; i < 2; ++i) {
    const auto seen = Run({bucket_, slots_}, lease_, Mode::kInspect);
    EXPECT_EQ(seen->settled, Settled::kSettled);
    EXPECT_EQ(seen->lease_ends, ends);
    EXPECT_EQ(seen->counters[0].held, 400);
    EXPECT_EQ(seen->counters[1].held, 1);
    EXPECT_EQ(seen->counters[0].verdict.remaining, 700);
  }
}

// Before the settlements, the bucket refills all leased tokens, so the settlements give none back.
// If the bucket were full, tokens that are given back would not show. So the bucket is half empty
// before the settlements.
TEST_P(SettleTest, BurstLeasedEachSecond_AllSettledWithNothing_NoneAreGivenBack) {
  for (std::uint8_t i = 0; i < 60; ++i) {
    EXPECT_TRUE(Run({bucket_}, MakeLease(i, seconds(120)), Mode::kConsume, 1000)->admitted);
    clock_.Advance(seconds(1));
  }
  EXPECT_TRUE(BlockingCheck({bucket_}, 500).RunOn(*store_).admitted);
  for (std::uint8_t i = 0; i < 60; ++i) {
    EXPECT_EQ(Run({bucket_}, MakeLease(i, seconds(120)), Mode::kSettle)->settled,
              Settled::kSettled);
  }
  EXPECT_EQ(Remaining(bucket_), 500);
}

// After the settlement, the bucket is as if the check had taken only the used units.
TEST_P(SettleTest, UnusedUnitsOfABucket_AreGivenBackUnlessRefilledSince) {
  Take({bucket_}, 1000);
  clock_.Advance(milliseconds(600));
  Settle({bucket_}, 500);
  EXPECT_EQ(Remaining(bucket_), 1000);
}

// During a lease, its limit may be replaced: a customer changes plans, or a rule is changed. Then
// the settlement must not refill or cap the bucket by the old limit.
TEST_P(SettleTest, AnotherLimitIsInForce_OnlyTheDifferenceChangesTheBucket) {
  const auto tokens = [](std::int64_t rate, std::int64_t burst) {
    return Limit(TokenBucket{.rate = rate * 60, .period = minutes(1), .burst = burst});
  };
  const auto leaks = [](std::int64_t rate) {
    return Limit(LeakyBucket{.rate = rate, .period = seconds(1), .queue = 9, .delays = false});
  };
  const Limit free = TokenBucket{.rate = 1, .period = minutes(1), .burst = 10};
  const Limit slow = tokens(1, 10);
  const Limit fast = tokens(100, 10);
  const Limit large = tokens(1000, 10'000);
  const struct {
    const char* what;
    Limit leased;
    Limit in_force;
    seconds wait;        // after a check has taken 2 units under the lease
    std::int64_t taken;  // the units that another check takes then
    std::int64_t used;   // the units used; the lease is settled 3 s later
    std::int64_t left;
  } rows[] = {
      {"burst raised", free, large, seconds(10), 5000, 1, 5000 + 3000 + 1},
      {"burst raised, more is used", free, large, seconds(10), 5000, 5, 5000 + 3000 - 3},
      {"burst lowered", large, free, seconds(60), 9, 2, 1},
      {"rate lowered", fast, slow, seconds(0), 8, 2, 3},
      {"rate lowered, refilled since at the old rate", fast, slow, seconds(0), 8, 0, 3},
      // At the lease's rate, the bucket was full after 0.1 s. So the charge moves the bucket's
      // time forward, and the slow rate adds only the tokens of the last 0.1 s.
      {"rate lowered, more is used", fast, slow, seconds(0), 8, 3, 0},
      {"rate raised", slow, fast, seconds(0), 8, 1, 10},
      {"unchanged", slow, slow, seconds(0), 8, 2, 3},
      {"unchanged, refilled since", slow, slow, seconds(0), 8, 0, 3},
      {"unchanged, more is used", slow, slow, seconds(0), 8, 4, 3 - 2},
      {"unchanged, is full, more is used", fast, fast, seconds(0), 1, 5, 10 - 3},
      {"unchanged, large", large, large, seconds(0), 9998, 1, 3000},
      {"drains more slowly", leaks(100), leaks(1), seconds(0), 8, 2, 3},
      {"drains more slowly, more is used", leaks(100), leaks(1), seconds(0), 8, 3, 0},
      {"drains as before, more is used", leaks(1), leaks(1), seconds(0), 8, 4, 3 - 2},
      {"drains as before, is empty", leaks(100), leaks(100), seconds(0), 1, 5, 10 - 3},
  };
  std::uint8_t number = 0;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    const std::string key = fmt::format("sluice:{{t/changed{}}}:k", ++number);
    const Lease lease = MakeLease(number, minutes(10));
    EXPECT_TRUE(Run({{key, row.leased}}, lease, Mode::kConsume, 2)->admitted);
    clock_.Advance(row.wait);
    EXPECT_TRUE(BlockingCheck({{key, row.in_force}}, row.taken).RunOn(*store_).admitted);
    clock_.Advance(seconds(3));
    const CounterSpec settled{key, row.leased, 0, row.used};
    EXPECT_EQ(Run({settled}, lease, Mode::kSettle)->settled, Settled::kSettled);
    EXPECT_EQ(Remaining({key, row.in_force}), row.left);
  }
}

// A charge must not be dated back to the bucket's stored time if that time was long ago. Otherwise,
// tokens that the bucket did not gain because it was full would pay for the charge, and the debt of
// a bucket that is always overused would grow without bound.
TEST_P(SettleTest, BucketIsOverusedAgainAndAgain_OwesNoMoreThanItsMaximumDebt) {
  const TokenBucket fast{.rate = 1000, .period = seconds(1), .burst = 1000};
  const TokenBucket slow{.rate = 1, .period = seconds(1), .burst = 1000};
  const CounterSpec bucket{"sluice:{t/overused}:k", fast, 0, kMaxCost};
  for (std::uint8_t i = 0; i < 10; ++i) {
    Run({{bucket.key, fast}}, MakeLease(i, hours(2)), Mode::kConsume, 1);
  }
  const auto owes = [&](const Limit& limit) {
    BlockingCheck peek({{bucket.key, limit}}, 0, Mode::kPeek);
    return peek.RunOn(*store_).counters[0].verdict.retry_after;
  };
  for (std::uint8_t i = 0; i < 10; ++i) {
    clock_.Advance(seconds(500));
    Run({bucket}, MakeLease(i, hours(2)), Mode::kSettle);
    EXPECT_EQ(owes(fast), seconds(600));
  }
  EXPECT_EQ(owes(slow), seconds(600'000));
}

// A store may drop a bucket that has become full. The bucket is then full by every limit.
TEST_P(SettleTest, BucketIsGone_SettlementLeavesItFullByALargerLimit) {
  const Limit small = TokenBucket{.rate = 1, .period = seconds(1), .burst = 10};
  const Limit large = TokenBucket{.rate = 1, .period = seconds(1), .burst = 10'000};
  const CounterSpec bucket{"sluice:{t/gone}:k", small, 0, 3};
  Run({bucket}, lease_, Mode::kConsume, 5);
  BlockingReset reset({bucket.key});
  reset.RunOn(*store_);
  Run({bucket}, lease_, Mode::kSettle);
  EXPECT_EQ(Remaining({bucket.key, large}), 10'000);
}

// A refund removes the oldest units, here units of the lease.
TEST_P(SettleTest, AnotherCheckWasRefunded_UnusedUnitsStillInTheWindowAreGivenBack) {
  const struct {
    const char* what;
    std::int64_t used;
    seconds wait;       // before the settlement
    std::int64_t left;  // of 1000
  } rows[] = {
      {"all unused", 0, seconds(1), 1000},
      {"some used", 25, seconds(1), 975},
      {"the units of the lease have left", 0, seconds(10), 960},
      {"all have left", 0, seconds(14), 1000},
  };
  const Limit limits[] = {SlidingLog{.limit = 1000, .window = seconds(10)},
                          SlidingWindow{.limit = 1000, .window = seconds(10), .segments = 5}};
  std::uint8_t number = 0;
  for (const auto& row : rows) {
    for (const Limit& limit : limits) {
      SCOPED_TRACE(std::string(row.what) + ", " + std::string(NameOf(limit)));
      const CounterSpec spec{fmt::format("sluice:{{t/refund{}}}:k", ++number), limit};
      const Lease lease = MakeLease(number, seconds(60));
      Run({spec}, lease, Mode::kConsume, 60);
      clock_.Advance(seconds(3));
      BlockingCheck({spec}, 40).RunOn(*store_);
      BlockingCheck refund({spec}, 40, Mode::kRefund);
      refund.demand.charged_at = clock_.Now();
      refund.RunOn(*store_);
      EXPECT_EQ(Remaining(spec), 940);
      // In a sliding window, units leave with their sub-window: up to one sub-window later than in
      // a log.
      const bool is_log = std::holds_alternative<SlidingLog>(limit);
      clock_.Advance(row.wait - (is_log && row.wait > seconds(1) ? seconds(3) : seconds(0)));
      CounterSpec settled = spec;
      settled.units = row.used;
      EXPECT_EQ(Run({settled}, lease, Mode::kSettle)->settled, Settled::kSettled);
      EXPECT_EQ(Remaining(spec), row.left);
    }
  }
}

// After an outage, a server charges the units of a lease before it enters the lease into the store.
// If these units leave the window before the settlement, units of other checks must not be given
// back instead.
TEST_P(SettleTest, EnteredLease_UnitsHaveLeftTheWindow_UnitsOfOtherChecksStay) {
  const Limit limits[] = {SlidingLog{.limit = 1000, .window = seconds(10)},
                          SlidingWindow{.limit = 1000, .window = seconds(10), .segments = 5}};
  std::uint8_t number = 0;
  for (const Limit& limit : limits) {
    const CounterSpec spec{fmt::format("sluice:{{t/entered{}}}:k", ++number), limit};
    BlockingCheck({spec}, 60, Mode::kCharge).RunOn(*store_);
    clock_.Advance(seconds(3));
    BlockingCheck({spec}, 40).RunOn(*store_);
    clock_.Advance(seconds(3));
    Run({spec}, MakeLease(number, seconds(60)), Mode::kCharge, 60);
    clock_.Advance(seconds(6));
    CounterSpec settled = spec;
    settled.units = 0;
    EXPECT_EQ(Run({settled}, MakeLease(number, seconds(60)), Mode::kSettle)->settled,
              Settled::kSettled);
    EXPECT_EQ(Remaining(spec), 960) << NameOf(limit);
  }
}

TEST_P(SettleTest, CallersWereToldTheirWait_NothingIsGivenBack) {
  const Limit limits[] = {
      LeakyBucket{.rate = 10, .period = seconds(1), .queue = 99, .delays = true},
      WarmingBucket{.rate = 10, .period = seconds(1), .warmup = seconds(10)}};
  for (std::size_t i = 0; i < std::size(limits); ++i) {
    const CounterSpec spec{fmt::format("sluice:{{t/told{}}}:k", i), limits[i]};
    const Lease lease = MakeLease(static_cast<std::uint8_t>(100 + i), seconds(60));
    Run({spec}, lease, Mode::kConsume, 5);
    const auto before = Remaining(spec);
    EXPECT_EQ(Run({spec}, lease, Mode::kSettle)->settled, Settled::kSettled);
    EXPECT_EQ(Remaining(spec), before);
  }
}

TEST_P(SettleTest, UndoneCheck_ItsLeaseIsAlreadySettled) {
  const auto taken = Take({window_, slots_, second_}, 400);
  Io().loop(0).Post([&] { store_->Undo(*taken); });
  Remaining(window_);  // waits for the undo
  Remaining(second_);
  EXPECT_EQ(Settle({window_, slots_, second_}, 300)->settled, Settled::kAlreadySettled);
  EXPECT_EQ(Remaining(window_), 1000);
  EXPECT_EQ(Remaining(second_), 1000);
  EXPECT_EQ(Remaining(slots_), 5);
}

// After an outage, a server charges the units that it admitted, and then enters their lease into
// the store.
TEST_P(SettleTest, EnteredLease_UnitsAreNotChargedAgain_SlotsAreTaken) {
  BlockingCheck({bucket_, window_}, 400, Mode::kCharge).RunOn(*store_);
  const Specs specs{bucket_, window_, slots_};
  for (int i = 0; i < 2; ++i) {
    Run(specs, lease_, Mode::kCharge, 400);
    EXPECT_EQ(Remaining(bucket_), 600);
    EXPECT_EQ(Remaining(window_), 600);
    EXPECT_EQ(Remaining(slots_), 4);
  }
  EXPECT_EQ(Settle(specs, 100)->settled, Settled::kSettled);
  EXPECT_EQ(Remaining(bucket_), 900);
  EXPECT_EQ(Remaining(window_), 900);
  Run(specs, lease_, Mode::kCharge, 400);
  EXPECT_EQ(Settle(specs, 0)->settled, Settled::kAlreadySettled) << "the lease is not opened again";
  EXPECT_EQ(Remaining(slots_), 5);
}

TEST_P(SettleTest, ManyLeasesAtOnce_EachIsSettledOnce) {
  std::vector<Pending> checks;
  for (std::uint8_t i = 0; i < 100; ++i) {
    checks.push_back(Make({window_, slots_}, MakeLease(i, seconds(60)), Mode::kConsume, 3));
    checks.push_back(Make({window_, slots_}, MakeLease(i, seconds(60)), Mode::kSettle, 1));
    checks.push_back(Make({window_, slots_}, MakeLease(i, seconds(60)), Mode::kSettle, 0));
  }
  for (auto& check : checks) {
    check->in_order = true;
    check->Start(*store_);
  }
  for (std::size_t i = 0; i < checks.size(); i += 3) {
    EXPECT_TRUE(checks[i]->Wait().admitted);
    EXPECT_EQ(checks[i + 1]->Wait().settled, Settled::kSettled);
    EXPECT_EQ(checks[i + 2]->Wait().settled, Settled::kAlreadySettled);
  }
  EXPECT_EQ(Remaining(window_), 900);
}

}  // namespace
}  // namespace sluice::test
