// While its store is down, a fleet admits at most the units that were left when the servers last
// saw the counter, and admits no unit twice. After the outage, the store counts the admitted units.
#include "tests/limiter/outage_fixture.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST_F(OutageTest, AllServersAreUpToDate_AdmitExactlyWhatWasLeft) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    for (std::int64_t used : {50, 51, 52, 99, 100}) {
      Start(row.limit);
      for (std::int64_t i = 0; i < used; ++i) server(i % 3).Ask();
      for (const auto& it : fleet_) it->Peek();
      Lose();
      EXPECT_EQ(TakeAll(), row.size - used);
    }
  }
}

// Some servers reconnect before others. The store does not know yet what the others have admitted.
TEST_F(OutageTest, StoreIsBack_NothingIsAdmittedTwiceUntilAllHaveCharged) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    Start(row.limit);
    for (const auto& it : fleet_) it->Peek();
    Lose();
    const std::int64_t taken = server(0).TakeAll();
    clock_.Advance(seconds(1));
    EXPECT_EQ(taken + TakeAll(), row.size);
    Recover();
    EXPECT_EQ(server(0).Peek().source, Source::kStore);
    EXPECT_EQ(server(0).TakeAll(), 0);
    server(0).ChargeBackAll();
    EXPECT_EQ(server(0).TakeAll(), 0) << "the others have not charged yet";
    server(1).ChargeBackAll();
    server(2).ChargeBackAll();
    clock_.Advance(std::chrono::milliseconds(449));
    EXPECT_EQ(server(0).Ask().source, Source::kFallback);
    clock_.Advance(std::chrono::milliseconds(1));
    EXPECT_EQ(server(0).Ask().source, Source::kStore);
    EXPECT_EQ(server(0).TakeAll(), 0);
  }
}

TEST_F(OutageTest, ShortOutage_StoreDecidesAgainAfterTwiceTheOutageLength) {
  Start(FixedWindow{.limit = 100, .window = hours(1)});
  Lose();
  server(0).Peek();
  clock_.Advance(std::chrono::milliseconds(20));
  Recover();
  EXPECT_EQ(server(0).Peek().source, Source::kStore);
  EXPECT_EQ(server(0).Peek().source, Source::kFallback);
  EXPECT_EQ(server(0).Ask(Mode::kCharge).source, Source::kStore);
  EXPECT_EQ(server(0).Ask(Mode::kCharge, 1, true).source, Source::kFallback)
      << "the charge decides";
  clock_.Advance(std::chrono::milliseconds(40));
  EXPECT_EQ(server(0).Peek().source, Source::kStore);
}

// The other servers charge as soon as the store is back. So the grace period begins then, even if
// there is no check.
TEST_F(OutageTest, StoreIsBackBeforeAnyCheck_GracePeriodStartsThen) {
  Start(FixedWindow{.limit = 100, .window = hours(1)});
  Lose();
  clock_.Advance(std::chrono::milliseconds(20));
  Recover();
  server(0).fallback.OnPartFound(0);
  clock_.Advance(std::chrono::milliseconds(39));
  EXPECT_EQ(server(0).Ask().source, Source::kFallback);
  server(0).fallback.OnPartFound(0);
  clock_.Advance(std::chrono::milliseconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(server(0).Ask().source, Source::kStore);
}

TEST_F(OutageTest, StallLongAgo_StoreDecidesEverything) {
  Start(Concurrency{.limit = 5, .ttl = minutes(1)}, 1);
  Stall(StoreFailure::kTimeout);
  for (int i = 0; i < 5; ++i) server(0).Peek();
  server(0).ChargeBack();
  clock_.Advance(std::chrono::milliseconds(30));
  Recover();
  clock_.Advance(std::chrono::milliseconds(1200));
  for (int i = 0; i < 6; ++i) {
    const CheckAnswer answer = server(0).Ask();
    EXPECT_EQ(answer.source, Source::kStore);
    EXPECT_EQ(answer.decision, i < 5 ? Decision::kAllowed : Decision::kDenied);
  }
}

TEST_F(OutageTest, StallWithAdmissions_StoreDecidesAfterTheUnitsAreCharged) {
  for (const Limit& limit : {Limit(FixedWindow{.limit = 5, .window = hours(1)}),
                             Limit(Concurrency{.limit = 5, .ttl = minutes(1)})}) {
    Start(limit, 1);
    Stall(StoreFailure::kUnsent);
    server(0).Ask();
    clock_.Advance(std::chrono::milliseconds(30));
    Recover();
    server(0).fallback.OnPartFound(0);
    EXPECT_EQ(server(0).Peek().source, Source::kFallback);
    server(0).ChargeBack();
    const CheckAnswer answer = server(0).Peek();
    EXPECT_EQ(answer.source, Source::kStore);
    EXPECT_EQ(answer.limits[0].verdict.remaining, 4);
  }
}

TEST_F(OutageTest, ChargesOfAStallAreInFlight_ChecksStayLocal) {
  Start(FixedWindow{.limit = 5, .window = hours(1)}, 1);
  rule_.per = {{"user", {}, {}}};
  server(0).SetRule(rule_);
  Stall(StoreFailure::kUnsent);
  for (const char* user : {"a", "b", "c"}) server(0).Ask(user);
  clock_.Advance(seconds(1));
  Recover();
  server(0).ChargeBack();
  store_->holds = true;
  server(0).ChargeBack();
  EXPECT_GT(store_->deadline, SteadyNow());
  EXPECT_LE(store_->deadline, SteadyNow() + seconds(1));
  server(0).ChargeBack();
  ASSERT_EQ(store_->held.size(), 2u) << "no more charges are sent before these are decided";
  for (StoreCheck* const check : store_->held) {
    EXPECT_TRUE(server(0).fallback.InGracePeriod("k"));
    check->OnDecided();
  }
  EXPECT_FALSE(server(0).fallback.InGracePeriod("k"));
}

// The store fails again while charges are in flight. The states that this server saw since the
// first outage do not include these charges. So this server must subtract the charges from its
// share of the units left.
TEST_F(OutageTest, LossWhileChargesAreInFlight_NothingIsAdmittedTwice) {
  Start(FixedWindow{.limit = 80, .window = hours(1)}, 2);
  Stall(StoreFailure::kUnsent);
  EXPECT_EQ(TakeAll(), 80);
  clock_.Advance(minutes(10));
  Recover();
  server(0).fallback.OnPartFound(0);
  clock_.Advance(minutes(10));
  EXPECT_EQ(server(0).Ask(Mode::kConsume, 20).source, Source::kStore);
  store_->holds = true;
  server(0).ChargeBack();
  store_->holds = false;
  ASSERT_EQ(store_->held.size(), 1u);
  Lose();
  EXPECT_EQ(server(0).TakeAll(), 0);
  store_->held[0]->Fail(StoreFailure::kUnreachable);
  store_->held[0]->OnDecided();
  EXPECT_EQ(server(0).TakeAll(), 0);
  Recover();
  server(0).ChargeBackAll();
  EXPECT_EQ(server(0).UnitsOfFate("charged"), 40u);
}

// After the charge, no check has reached the store. The store's answer to the charge shows what the
// other server took.
TEST_F(OutageTest, StallThenLoss_LocalChecksStartFromTheStateAfterTheCharge) {
  Start(FixedWindow{.limit = 100, .window = hours(1)}, 2);
  server(0).Peek();
  Stall(StoreFailure::kUnsent);
  for (int i = 0; i < 40; ++i) server(0).Ask();
  clock_.Advance(seconds(1));
  Recover();
  server(1).Ask(Mode::kConsume, 20);
  server(0).ChargeBack();
  Lose();
  EXPECT_EQ(server(0).TakeAll(), 20) << "half of 40";
}

// Other servers may not have charged their units yet.
TEST_F(OutageTest, StoreTakesACharge_ChecksStayLocalInTheGracePeriod) {
  Start(FixedWindow{.limit = 5, .window = hours(1)}, 1);
  Lose();
  server(0).Ask();
  clock_.Advance(std::chrono::milliseconds(100));
  Recover();
  server(0).ChargeBack();
  EXPECT_EQ(server(0).Ask().source, Source::kFallback);
}

// In the grace period, the store's state includes the units that this server has charged, but not
// the units that other servers have admitted. If this server learned this state, it would admit a
// part of the units again.
TEST_F(OutageTest, StoreAnswersInTheGracePeriod_UnitsOfOthersAreNotAdmittedAgain) {
  struct Answered final : StoreCheck {
    void OnDecided() override {}
  };
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    Start(FixedWindow{.limit = 100, .window = hours(1)}, 2);
    for (const auto& it : fleet_) it->Peek();
    Lose();
    clock_.Advance(seconds(1));
    EXPECT_EQ(TakeAll(), 100);
    Recover();
    server(0).ChargeBackAll();
    const Limit limit = rule_.limits.limits[0].limit;
    Answered check;
    check.demand.mode = Mode::kCharge;
    check.counters.push_back({.key = "sluice:{shop/r/}:fixed_window:1h", .limit = &limit});
    store_->Submit(check);
    ASSERT_EQ(check.counters[0].verdict.remaining, 49);
    Fallback& fallback = server(0).fallback;
    late ? fallback.OnLateAnswer(check) : fallback.NoteDecided(check, SteadyNow());
    EXPECT_EQ(server(0).Peek().source, Source::kFallback);
    EXPECT_EQ(server(0).TakeAll(), 0);
  }
}

// The store has this server's units, but the local counter would start again without them.
TEST_F(OutageTest, ShareChangesInTheGracePeriod_IsTakenAfterIt_NothingIsAdmittedTwice) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    Start(row.limit, 2);
    for (const auto& it : fleet_) it->Peek();
    Lose();
    clock_.Advance(seconds(1));
    EXPECT_EQ(TakeAll(), row.size);
    Recover();
    server(0).fallback.OnPartFound(0);
    server(0).ChargeBackAll();
    EXPECT_FALSE(server(0).fallback.SetShare(Share::OfServer(2, 1)));
    clock_.Advance(std::chrono::milliseconds(449));
    EXPECT_FALSE(server(0).fallback.SetShare(Share::OfServer(2, 1)));
    EXPECT_EQ(server(0).TakeAll(), 0);
    clock_.Advance(std::chrono::milliseconds(1));
    EXPECT_TRUE(server(0).fallback.SetShare(Share::OfServer(2, 1))) << "no check is needed";
    EXPECT_EQ(server(0).Peek().source, Source::kStore);
  }
}

// A connection to the store works again, but the store refuses all changes. So no server can charge
// its units yet.
TEST_F(OutageTest, StoreRefusesInTheGracePeriod_GracePeriodStartsWhenItWorks) {
  Start(FixedWindow{.limit = 100, .window = hours(1)}, 2);
  for (const auto& it : fleet_) it->Peek();
  Lose();
  clock_.Advance(seconds(1));
  EXPECT_EQ(TakeAll(), 100);
  Stall(StoreFailure::kRejected);
  server(0).fallback.OnPartFound(0);
  server(0).ChargeBack();
  clock_.Advance(seconds(1));
  EXPECT_EQ(server(0).TakeAll(), 0);
  Recover();
  server(0).ChargeBackAll();
  EXPECT_EQ(server(0).TakeAll(), 0) << "the other server has not charged yet";
  clock_.Advance(std::chrono::milliseconds(449));
  EXPECT_EQ(server(0).Ask().source, Source::kFallback);
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(server(0).Ask().source, Source::kStore);
}

TEST_F(OutageTest, ConnectionIsLostInTheGracePeriod_NextGracePeriodIsANewOne) {
  Start(FixedWindow{.limit = 100, .window = hours(1)}, 1);
  Lose();
  clock_.Advance(seconds(1));
  server(0).fallback.OnPartFound(0);
  server(0).fallback.OnPartLost(0);
  clock_.Advance(seconds(1));
  Recover();
  server(0).fallback.OnPartFound(0);
  clock_.Advance(std::chrono::milliseconds(449));
  EXPECT_EQ(server(0).Ask().source, Source::kFallback);
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(server(0).Ask().source, Source::kStore);
}

// If each slow check prolonged the grace period, it might never end.
TEST_F(OutageTest, CheckIsSlowInTheGracePeriod_GracePeriodEndsInTime) {
  for (const StoreFailure failure :
       {StoreFailure::kTimeout, StoreFailure::kUnsent, StoreFailure::kUnreachable}) {
    Start(FixedWindow{.limit = 100, .window = hours(1)}, 1);
    Lose();
    clock_.Advance(seconds(1));
    server(0).fallback.OnPartFound(0);
    clock_.Advance(std::chrono::milliseconds(449));
    Stall(failure);
    server(0).Ask(Mode::kCharge);
    Recover();
    EXPECT_EQ(server(0).Ask().source, Source::kFallback);
    clock_.Advance(std::chrono::milliseconds(1));
    EXPECT_EQ(server(0).Ask().source, Source::kStore);
  }
}

// None of the charges has reached the store yet.
TEST_F(OutageTest, ChargesOfAStallFail_ChecksStayLocal) {
  Start(FixedWindow{.limit = 5, .window = hours(1)}, 1);
  Stall(StoreFailure::kUnsent);
  server(0).Ask();
  clock_.Advance(seconds(1));
  server(0).ChargeBack();
  Recover();
  server(0).fallback.OnPartFound(0);
  EXPECT_EQ(server(0).Ask().source, Source::kFallback);
}

// If a connection was lost, other servers may have lost theirs, too.
TEST_F(OutageTest, ConnectionIsLostInAStall_ChecksStayLocal) {
  Start(FixedWindow{.limit = 5, .window = hours(1)}, 1);
  Stall(StoreFailure::kTimeout);
  server(0).Ask();
  server(0).fallback.OnPartLost(0);
  clock_.Advance(std::chrono::milliseconds(30));
  Recover();
  server(0).fallback.OnPartFound(0);
  EXPECT_EQ(server(0).Ask().source, Source::kFallback);
}

// In each round, every server sends one check. A server has not seen the checks that the others
// sent after its own last check.
TEST_F(OutageTest, ServersAreOneRoundBehind_ExceedTheRemainingUnitsByAtMostThatRound) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    Start(row.limit);
    for (int i = 0; i < 50; ++i) server(static_cast<std::size_t>(i % 3)).Ask();
    Lose();
    EXPECT_LE(TakeAll(), 50 + 2);
  }
}

TEST_F(OutageTest, ServerHasSeenNoneOfTheUnitsTaken_AdmitsItsThirdOfTheLimit) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    Start(row.limit);
    server(0).Peek();
    EXPECT_EQ(server(1).TakeAll(), row.size);
    server(2).Peek();
    Lose();
    EXPECT_EQ(TakeAll(), 34) << "the share of server 0, which saw 100 units left";
  }
}

TEST_F(OutageTest, ServerStartsInAnOutage_HasNoShareAndAdmitsNothing) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    Start(row.limit, 0);
    FleetServer& late = Add(Share::Nothing());
    Lose();
    const CheckAnswer answer = late.Ask();
    EXPECT_EQ(answer.decision, Decision::kDenied);
    EXPECT_EQ(answer.retry_after, seconds(1)) << "a retry can help: the store may be back";
    late.fallback.SetShare(Share::OfServer(2, 1));
    EXPECT_EQ(late.TakeAll(), 50);
  }
}

TEST_F(OutageTest, CounterWasNeverSeen_FleetAdmitsOneLimit) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    Start(row.limit);
    Lose();
    EXPECT_EQ(TakeAll(), row.size);
  }
}

TEST_F(OutageTest, WindowEndsInAnOutage_FleetAdmitsOneMoreLimit) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)});
  server(0).TakeAll();
  for (const auto& it : fleet_) it->Peek();
  Lose();
  EXPECT_EQ(server(0).Ask().retry_after, minutes(1));
  clock_.Advance(minutes(1) - Duration(1));
  EXPECT_EQ(TakeAll(), 0);
  clock_.Advance(Duration(1));
  EXPECT_EQ(TakeAll(), 100);
  EXPECT_EQ(TakeAll(), 0);
}

TEST_F(OutageTest, BucketThatStartsEmpty_FillsDuringAnOutage) {
  Start(TokenBucket{.rate = 1, .period = seconds(1), .burst = 5, .starts_empty = true}, 1);
  Lose();
  EXPECT_EQ(TakeAll(), 0);
  clock_.Advance(seconds(2));
  EXPECT_EQ(TakeAll(), 2);
}

// The share of this server becomes smaller. The unit that it has admitted still counts.
TEST_F(OutageTest, ShareChangesInAnOutage_NothingIsAdmittedTwice) {
  Start(TokenBucket{.rate = 1, .period = hours(1), .burst = 3}, 0);
  FleetServer& it = Add(Share::OfServer(2, 0));
  Lose();
  EXPECT_EQ(it.Ask().decision, Decision::kAllowed);
  it.fallback.SetShare(Share::OfServer(2, 1));
  EXPECT_EQ(it.TakeAll(), 0);
}

TEST_F(OutageTest, BucketRefillsInAnOutage_FleetAdmitsTheAddedUnits) {
  Start(TokenBucket{.rate = 3, .period = seconds(1), .burst = 90});
  server(0).TakeAll();
  for (const auto& it : fleet_) it->Peek();
  Lose();
  EXPECT_EQ(TakeAll(), 0);
  for (int second = 0; second < 10; ++second) {
    clock_.Advance(seconds(1));
    EXPECT_EQ(TakeAll(), 3);
  }
}

// If the rate changes, a bucket keeps its level, but the time until the bucket is full changes.
TEST_F(OutageTest, RateChangedBeforeAnOutage_RemainingUnitsAreAdmitted) {
  const TokenBucket tokens{.rate = 100, .period = seconds(1), .burst = 100};
  TokenBucket slow_tokens = tokens;
  slow_tokens.rate = 1;
  const LeakyBucket places{.rate = 100, .period = seconds(1), .queue = 99};
  LeakyBucket slow_places = places;
  slow_places.rate = 1;
  struct Row {
    Limit before, after;
    std::int64_t added_in_ten_seconds;
  };
  const Row rows[] = {
      {tokens, slow_tokens, 10},
      {slow_tokens, tokens, 100},
      {places, slow_places, 10},
      {slow_places, places, 100},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    for (const std::int64_t used : {80, 100}) {
      Start(row.before, 1);
      server(0).Ask(Mode::kConsume, used);
      rule_.limits.limits = {row.after};
      server(0).SetRule(rule_);
      Lose();
      EXPECT_EQ(server(0).TakeAll(), 100 - used);
      clock_.Advance(seconds(10));
      EXPECT_EQ(server(0).TakeAll(), row.added_in_ten_seconds);
    }
  }
}

// A bucket with warmup cannot be divided. So only one server of the fleet admits units, at its
// share of the rate.
TEST_F(OutageTest, BucketIsWarm_StaysWarmAtTheServersShare) {
  Start(WarmingBucket{.rate = 10, .period = seconds(1), .warmup = seconds(6)});
  const auto take_for = [&](Duration duration) {
    std::int64_t taken = 0;
    for (const Time end = clock_.Now() + duration; clock_.Now() < end;) {
      clock_.Advance(std::chrono::milliseconds(10));
      for (const auto& it : fleet_) taken += it->Ask().decision == Decision::kAllowed ? 1 : 0;
    }
    return taken;
  };
  take_for(seconds(10));
  EXPECT_EQ(take_for(seconds(9)), 90);
  Lose();
  EXPECT_EQ(take_for(seconds(9)), 30);
}

// If a server forgot the units of the last outage, each outage would begin with the same share of
// the remaining units.
TEST_F(OutageTest, RepeatedOutages_TogetherAdmitAtMostOneFurtherLimit) {
  for (const Outage& row : kOutages) {
    for (const bool charges_back : {false, true}) {
      SCOPED_TRACE(row.name);
      SCOPED_TRACE(charges_back);
      Start(row.limit);
      std::int64_t admitted = 0;
      for (int outage = 0; outage < 60; ++outage) {
        Recover();
        for (const auto& it : fleet_) {
          if (charges_back) it->ChargeBackAll();
          admitted += it->Ask().decision == Decision::kAllowed ? 1 : 0;
        }
        if (charges_back)
          for (const auto& it : fleet_) it->Peek();
        Lose();
        for (const auto& it : fleet_) admitted += it->Ask().decision == Decision::kAllowed ? 1 : 0;
      }
      if (charges_back) {
        EXPECT_LE(admitted, row.size + 3);
      } else {
        EXPECT_LE(admitted, 2 * row.size) << "all outages together may admit one further limit";
      }
    }
  }
}

// The store is back for a moment. It does not know the units admitted during the outage.
TEST_F(OutageTest, NextOutageBeforeChargesAreSent_PendingUnitsStayCounted) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    for (const int owed : {1, 40}) {
      Start(row.limit, 1);
      server(0).Peek();
      Lose();
      for (int i = 0; i < owed; ++i) server(0).Ask();
      Recover();
      server(0).Peek();
      clock_.Advance(seconds(1));
      EXPECT_EQ(server(0).Peek().limits[0].verdict.remaining, row.size);
      Lose();
      EXPECT_EQ(server(0).TakeAll(), row.size - owed);
    }
  }
}

// Local windows must end when the store's windows end, even if this server's clock is wrong.
TEST(StoreClock, AnotherClock_OffsetIsLearned) {
  ManualClock own(Time(seconds(1'000)));
  StoreClock clock(own);
  EXPECT_EQ(clock.Now(), Time(seconds(1'000)));
  clock.Learn(Time(seconds(4'600)), SteadyTime(seconds(7)));
  own.Advance(seconds(5));
  EXPECT_EQ(clock.Now(), Time(seconds(4'605)));
}

// If the failure policy decided, a caller could overload a server in order to be admitted by the
// policy.
TEST_F(OutageTest, Overload_AdmitsNothing) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)}, 1);
  server(0).Peek();
  Stall(StoreFailure::kOverloaded);
  const CheckAnswer answer = server(0).Ask();
  EXPECT_EQ(answer.decision, Decision::kDenied);
  EXPECT_EQ(answer.retry_after, std::chrono::milliseconds(10)) << "redis.timeout";
  EXPECT_EQ(answer.source, Source::kFallback);
}

TEST_F(OutageTest, AllowPolicy_AdmitsEverything_AdmittedUnitsAreCharged) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)}, 1);
  rule_.on_store_failure = OnStoreFailure::kAllow;
  server(0).SetRule(rule_);
  Lose();
  for (int i = 0; i < 150; ++i) EXPECT_EQ(server(0).Ask().decision, Decision::kAllowed);
  Recover();
  server(0).ChargeBackAll();
  EXPECT_EQ(server(0).Ask().decision, Decision::kDenied);
  server(0).Ask(Mode::kRefund, 51);
  EXPECT_EQ(server(0).TakeAll(), 1) << "150 units were charged";
}

}  // namespace
}  // namespace sluice::test
