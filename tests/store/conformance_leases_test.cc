// Leases on every store: concurrency limits, alone and together with others.
#include "tests/store/store_test.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Concurrency kFive{.limit = 5, .ttl = seconds(60)};

class LeasesTest : public StoreTest {
 protected:
  Verdict Take(const Lease& lease, std::int64_t cost = 1) {
    return Decide(kFive, {.cost = cost, .lease = lease});
  }
  bool Renew(const Lease& lease) {
    return Decide(kFive, {.mode = Mode::kRenew, .lease = lease}).admitted;
  }
  Verdict Release(const Lease& lease) {
    return Decide(kFive, {.mode = Mode::kSettle, .lease = lease});
  }

  const Lease first_ = MakeLease(1, seconds(60));
  const Lease second_ = MakeLease(2, seconds(60));
};
INSTANTIATE_TEST_SUITE_P(Stores, LeasesTest, EveryStore(), NameOfStore);

TEST_P(LeasesTest, Slots_AreHeldUntilReleased) {
  EXPECT_EQ(Take(first_, 3),
            (Verdict{.admitted = true, .limit = 5, .remaining = 2, .reset_after = seconds(60)}));
  clock_.Advance(seconds(20));
  const Verdict denied = Take(second_, 3);
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.remaining, 2);
  EXPECT_EQ(denied.retry_after, seconds(40));
  EXPECT_EQ(Release(first_).remaining, 5);
  EXPECT_EQ(Take(second_, 3).remaining, 2);
}

TEST_P(LeasesTest, Release_OfALeaseWithoutSlots_FreesNoOtherSlots) {
  Take(first_, 3);
  Take(second_, 2);
  EXPECT_EQ(Release(first_).remaining, 3);
  EXPECT_EQ(Release(first_).remaining, 3);
  EXPECT_EQ(Release(MakeLease(9, seconds(60))).remaining, 3);
}

TEST_P(LeasesTest, UnrenewedLease_ExpiresAfterItsTtl_NotBefore) {
  Take(MakeLease(1, seconds(10)), 5);
  ExpectOpensAfter(kFive, seconds(10));
  EXPECT_EQ(Peek(kFive).remaining, 5);
}

TEST_P(LeasesTest, RenewedLease_LastsAnotherTtl) {
  Take(first_, 5);
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(seconds(60) - Duration(1));
    EXPECT_TRUE(Renew(first_));
    EXPECT_EQ(Peek(kFive).remaining, 0) << "all of its slots are renewed";
  }
  ExpectOpensAfter(kFive, seconds(60));
}

TEST_P(LeasesTest, Renew_OfAnExpiredLease_FailsAndTakesNothing) {
  Take(first_, 3);
  clock_.Advance(seconds(60));
  EXPECT_FALSE(Renew(first_));
  EXPECT_EQ(Peek(kFive).remaining, 5);
  EXPECT_FALSE(Renew(second_)) << "never taken";
  Take(second_, 1);
  EXPECT_FALSE(Renew(first_)) << "the counter exists again, but without this lease";
  EXPECT_EQ(Release(first_).remaining, 4);
}

TEST_P(LeasesTest, Charge_TakesSlotsBeyondTheLimit_RenewsAHeldLease) {
  const auto charge = [&](const Lease& lease, std::int64_t cost) {
    return Decide(kFive, {.cost = cost, .mode = Mode::kCharge, .lease = lease});
  };
  EXPECT_EQ(charge(first_, 3).remaining, 2);
  clock_.Advance(seconds(40));
  EXPECT_EQ(charge(first_, 2).remaining, 2) << "the lease still holds its three slots";
  EXPECT_FALSE(charge(second_, 4).admitted);
  EXPECT_FALSE(Take(MakeLease(3, seconds(60))).admitted);
  clock_.Advance(seconds(40));
  EXPECT_EQ(Release(first_).remaining, 1) << "renewed, so it had three slots to give back";
  EXPECT_EQ(Release(second_).remaining, 5);
  EXPECT_EQ(charge(first_, 257).dropped, 1) << "a lease holds at most 256 slots";
}

TEST_P(LeasesTest, Peek_TakesNoSlot_AndNeedsNoLease) {
  EXPECT_TRUE(Peek(kFive, 5).admitted);
  EXPECT_EQ(Peek(kFive, 0).remaining, 5);
  Take(first_, 5);
  const Verdict full = Peek(kFive);
  EXPECT_FALSE(full.admitted);
  EXPECT_EQ(full.retry_after, seconds(60));
}

TEST_P(LeasesTest, MoreSlotsThanALeaseMayHold_AreAlwaysDenied) {
  const Concurrency wide{.limit = 1000, .ttl = seconds(60)};
  EXPECT_EQ(Decide(wide, {.cost = 256, .lease = first_}).remaining, 744);
  const Verdict verdict = Decide(wide, {.cost = 257, .lease = second_});
  EXPECT_FALSE(verdict.admitted);
  EXPECT_EQ(verdict.retry_after, Verdict::kNever);
  EXPECT_EQ(Decide(wide, {.mode = Mode::kSettle, .lease = first_}).remaining, 1000);
}

TEST_P(LeasesTest, RateAndSlots_OneDenies_TheOtherIsNotCharged) {
  const CounterSpec rate{"sluice:{t/r}:rate", FixedWindow{.limit = 3, .window = seconds(60)}};
  const CounterSpec slots{"sluice:{t/r}:slots", Concurrency{.limit = 2, .ttl = seconds(60)}};
  const auto take = [&](std::uint8_t lease) {
    auto check = std::make_unique<BlockingCheck>(std::vector{rate, slots});
    check->lease = MakeLease(lease, seconds(60));
    check->RunOn(*store_);
    return check;
  };
  EXPECT_TRUE(take(1)->admitted);
  EXPECT_TRUE(take(2)->admitted);
  const auto no_slot = take(3);
  EXPECT_FALSE(no_slot->admitted);
  EXPECT_TRUE(no_slot->counters[0].verdict.admitted);
  EXPECT_EQ(no_slot->counters[0].verdict.remaining, 1) << "the rate is charged without a slot";
  EXPECT_FALSE(no_slot->counters[1].verdict.admitted);

  BlockingCheck release({slots}, 1, Mode::kSettle);
  release.lease = MakeLease(1, seconds(60));
  release.RunOn(*store_);
  EXPECT_TRUE(take(4)->admitted);
  release.lease = MakeLease(2, seconds(60));
  release.RunOn(*store_);
  const auto no_quota = take(5);
  EXPECT_FALSE(no_quota->admitted);
  EXPECT_FALSE(no_quota->counters[0].verdict.admitted);
  EXPECT_TRUE(no_quota->counters[1].verdict.admitted);
  EXPECT_EQ(no_quota->counters[1].verdict.remaining, 1)
      << "a slot is taken although the rate denies";
}

TEST_P(LeasesTest, Renew_OneCounterHasLostTheLease_NoCounterIsRenewed) {
  const CounterSpec one{"sluice:{t/r}:one", kFive};
  const CounterSpec other{"sluice:{t/r}:other", kFive};
  BlockingCheck take({one, other});
  take.lease = first_;
  EXPECT_TRUE(take.RunOn(*store_).admitted);
  clock_.Advance(seconds(40));
  BlockingCheck renew({one, other}, 1, Mode::kRenew);
  renew.lease = first_;
  EXPECT_TRUE(renew.RunOn(*store_).admitted);

  BlockingReset({other.key}).RunOn(*store_);
  clock_.Advance(seconds(40));
  EXPECT_FALSE(renew.RunOn(*store_).admitted);
  EXPECT_TRUE(renew.counters[0].verdict.admitted);
  EXPECT_FALSE(renew.counters[1].verdict.admitted);
  clock_.Advance(seconds(20));
  BlockingCheck peek({one}, 1, Mode::kPeek);
  EXPECT_EQ(peek.RunOn(*store_).counters[0].verdict.remaining, 5) << "one of two was renewed";
}

TEST_P(LeasesTest, ShadowRule_SlotsAreFull_DeniesNoCheck) {
  const CounterSpec rate{"sluice:{t/r}:rate", FixedWindow{.limit = 3, .window = seconds(60)}};
  const CounterSpec slots{"sluice:{t/s}:slots", Concurrency{.limit = 2, .ttl = seconds(60)}, 1};
  for (std::uint8_t i = 0; i < 5; ++i) {
    BlockingCheck check({rate, slots});
    check.lease = MakeLease(i, seconds(60));
    EXPECT_EQ(check.RunOn(*store_).admitted, i < 3);
    EXPECT_EQ(check.counters[1].verdict.admitted, i < 2);
    EXPECT_EQ(check.counters[1].verdict.remaining, std::max(0, 1 - i));
  }
}

TEST_P(LeasesTest, ManyChecksAtOnce_NeverTakeMoreThanTheLimit) {
  // All are in flight together, so that a store may decide several at a time.
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (std::uint8_t i = 0; i < 100; ++i) {
    checks.push_back(
        std::make_unique<BlockingCheck>(std::vector{CounterSpec{"sluice:{t/r}:slots", kFive}}));
    checks.back()->lease = MakeLease(i, seconds(60));
  }
  for (auto& check : checks) check->Start(*store_);
  int admitted = 0;
  for (auto& check : checks) admitted += check->Wait().admitted ? 1 : 0;
  EXPECT_EQ(admitted, 5);
}

TEST_P(LeasesTest, ClockIsReplaced_LeasesKeepTheirRemainingTime) {
  Take(first_, 5);
  clock_.Advance(seconds(20));
  Take(second_, 1);  // it is denied, so it writes nothing
  EXPECT_TRUE(Renew(first_));
  clock_.Advance(-hours(1));
  EXPECT_EQ(Peek(kFive).remaining, 0);
  EXPECT_EQ(Take(second_).retry_after, seconds(60));
  EXPECT_TRUE(Renew(first_));
  ExpectOpensAfter(kFive, minutes(1));
  EXPECT_FALSE(Renew(first_));
}

// The limit follows the load and starts at its minimum.
class AdaptiveTest : public StoreTest {
 protected:
  static constexpr Concurrency kAdaptive{
      .limit = 50,
      .ttl = seconds(60),
      .adapt = {.on = true, .min = 4, .latency = seconds(1), .share = 90}};

  // Holds `slots` for `time`. Returns by how much the release raised the limit; negative if the
  // limit fell.
  std::int64_t Hold(std::int64_t slots, Duration time, std::optional<Duration> claims = {}) {
    Lease lease = MakeLease(++leases_, seconds(60));
    Decide(kAdaptive, {.cost = slots, .lease = lease});
    lease.report = HoldReport{.taken = clock_.Now(), .duration = claims};
    clock_.Advance(time);
    return Decide(kAdaptive, {.mode = Mode::kSettle, .lease = lease}).dropped;
  }
  std::int64_t LimitNow() { return Peek(kAdaptive).limit; }
  void Rise() {
    while (LimitNow() < 20) Hold(LimitNow(), std::chrono::milliseconds(500));
  }

  int leases_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Stores, AdaptiveTest, EveryStore(), NameOfStore);

TEST_P(AdaptiveTest, FastHolds_RaiseTheLimit_SlowOnesLowerIt) {
  EXPECT_EQ(LimitNow(), 4);
  Rise();
  Hold(2, seconds(2));
  const std::int64_t lower = LimitNow();
  EXPECT_LT(lower, 20);
  Hold(2, seconds(1), HoldReport::kOverload);
  EXPECT_LT(LimitNow(), lower);
}

TEST_P(AdaptiveTest, RaisedLimit_AdmitsItsSlotsAndNoMore) {
  Rise();
  const std::int64_t limit = LimitNow();
  const Lease lease = MakeLease(254, seconds(60));
  EXPECT_FALSE(Decide(kAdaptive, {.cost = limit + 1, .lease = lease}).admitted);
  EXPECT_TRUE(Decide(kAdaptive, {.cost = limit, .lease = lease}).admitted);
  EXPECT_FALSE(Decide(kAdaptive, {.lease = MakeLease(255, seconds(60))}).admitted);
}

TEST_P(AdaptiveTest, ExpiredSlots_LowerTheLimit_WhenTheNextSlotIsTaken) {
  Rise();
  Decide(kAdaptive, {.cost = 20, .lease = MakeLease(254, seconds(60))});
  clock_.Advance(seconds(60));
  const std::int64_t before = LimitNow();
  Decide(kAdaptive, {.lease = MakeLease(255, seconds(60))});
  EXPECT_LT(LimitNow(), before);
}

TEST_P(AdaptiveTest, NewBounds_ApplyAtOnce_AndKeepWhatWasLearned) {
  Rise();
  const std::int64_t limit = LimitNow();
  Concurrency lower = kAdaptive;
  lower.limit = 10;
  EXPECT_EQ(Peek(lower).limit, 10);
  EXPECT_FALSE(Decide(lower, {.cost = 11, .lease = MakeLease(254, seconds(60))}).admitted);
  Concurrency higher = kAdaptive;
  higher.adapt.min = 30;
  EXPECT_EQ(Peek(higher).limit, 30);
  EXPECT_EQ(LimitNow(), limit);
}

TEST_P(AdaptiveTest, NewBounds_LimitWasOutside_MovesFromTheNearerBound) {
  Rise();
  const auto hold = [&](const Concurrency& version, Duration time) {
    Lease lease = MakeLease(254, seconds(60));
    EXPECT_TRUE(Decide(version, {.cost = 10, .lease = lease}).admitted);
    lease.report = HoldReport{.taken = clock_.Now()};
    clock_.Advance(time);
    Decide(version, {.mode = Mode::kSettle, .lease = lease});
    return Peek(version).limit;
  };
  Concurrency lower = kAdaptive;
  lower.limit = 10;
  EXPECT_LT(hold(lower, seconds(2)), 10);
  Concurrency higher = kAdaptive;
  higher.adapt = {.on = true, .min = 12, .latency = seconds(1), .share = 90};
  EXPECT_EQ(hold(higher, seconds(1)), 12);
  EXPECT_LT(hold(kAdaptive, seconds(2)), 12) << "it learned the new minimum";
}

TEST_P(AdaptiveTest, Release_ReportsTheChangeOfTheLimit) {
  std::int64_t rose = 0;
  for (int i = 0; i < 100 && rose < 16; ++i) rose += Hold(LimitNow(), seconds(1));
  const std::int64_t high = LimitNow();
  EXPECT_EQ(rose, high - 4);
  rose = Hold(10, seconds(2));
  EXPECT_LT(rose, 0);
  EXPECT_EQ(LimitNow() - high, rose);
  EXPECT_EQ(Decide(kFive, {.mode = Mode::kSettle, .lease = MakeLease(leases_, {})}).dropped, 0);
}

TEST_P(AdaptiveTest, Release_UnderAnotherVersion_IsJudgedByThatVersion) {
  Rise();
  Concurrency patient = kAdaptive;
  patient.adapt.latency = seconds(10);
  const auto limit_after = [&](const Concurrency& version) {
    Lease lease = MakeLease(254, seconds(60));
    EXPECT_TRUE(Decide(kAdaptive, {.cost = 10, .lease = lease}).admitted);
    lease.report = HoldReport{.taken = clock_.Now()};
    clock_.Advance(seconds(2));
    Decide(version, {.mode = Mode::kSettle, .lease = lease});
    const Verdict now = Peek(kAdaptive);
    EXPECT_EQ(now.remaining, now.limit);
    return now.limit;
  };
  const std::int64_t limit = LimitNow();
  EXPECT_EQ(limit_after(kFive), limit) << "this version has nothing to learn";
  EXPECT_EQ(limit_after(patient), limit);
  EXPECT_LT(limit_after(kAdaptive), limit);
}

TEST_P(AdaptiveTest, HoldWithoutAReport_DoesNotMoveTheLimit) {
  Rise();
  const std::int64_t limit = LimitNow();
  const Lease lease = MakeLease(254, seconds(60));
  Decide(kAdaptive, {.cost = 10, .lease = lease});
  clock_.Advance(seconds(30));
  Decide(kAdaptive, {.mode = Mode::kSettle, .lease = lease});
  EXPECT_EQ(Peek(kAdaptive).remaining, limit);
}

TEST_P(AdaptiveTest, ClockIsReplaced_HoldsAcrossTheChangeDoNotMoveTheLimit_LaterOnesDo) {
  Rise();
  Lease across = MakeLease(254, seconds(60));
  across.report = HoldReport{.taken = clock_.Now()};
  Decide(kAdaptive, {.lease = across});
  const std::int64_t limit = LimitNow();
  clock_.Advance(-hours(1));
  Hold(10, std::chrono::milliseconds(500));
  EXPECT_EQ(LimitNow(), limit);
  Hold(10, seconds(2));
  const std::int64_t lower = LimitNow();
  EXPECT_LT(lower, limit);
  Decide(kAdaptive, {.mode = Mode::kSettle, .lease = across});
  EXPECT_EQ(Peek(kAdaptive).remaining, lower);
}

TEST_P(AdaptiveTest, ClockJumpsAhead_HeldSlotsHaveExpired_LimitStaysWithinItsBounds) {
  Rise();
  Hold(20, hours(2));
  EXPECT_EQ(Peek(kAdaptive).remaining, LimitNow());
  Hold(4, std::chrono::milliseconds(500));
  EXPECT_GE(LimitNow(), 4);
  EXPECT_LT(LimitNow(), 20);
}

TEST_P(AdaptiveTest, PlainRuleOfTheSameCounter_KeepsWhatWasLearned) {
  Rise();
  const std::int64_t limit = LimitNow();
  const Lease lease = MakeLease(254, seconds(60));
  Decide(kFive, {.cost = 5, .lease = lease});
  Decide(kFive, {.mode = Mode::kSettle, .lease = lease});
  clock_.Advance(hours(1));
  EXPECT_EQ(LimitNow(), limit);
}

}  // namespace
}  // namespace sluice::test
