// After an outage, servers charge the store for the units that they admitted without the store.
// They charge each unit once, as soon as the store accepts charges.
#include <string>

#include "tests/limiter/outage_fixture.h"
#include "tests/support/captured_log.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

using ChargeBackTest = OutageTest;

TEST_F(ChargeBackTest, OutageEndsWithQuotaLeft_StoreIsChargedOnceForEveryUnit) {
  for (const Outage& row : kOutages) {
    SCOPED_TRACE(row.name);
    Start(row.limit);
    for (const auto& it : fleet_) it->Peek();
    Lose();
    for (int i = 0; i < 60; ++i) server(static_cast<std::size_t>(i % 3)).Ask();
    Recover();
    for (const auto& it : fleet_) it->ChargeBackAll();
    for (const auto& it : fleet_) it->ChargeBackAll();
    EXPECT_EQ(server(0).Peek().limits[0].verdict.remaining, 40);
    EXPECT_EQ(TakeAll(), 40);
  }
}

TEST_F(ChargeBackTest, OutageEndsAfterTheWindow_StoreIsNotCharged) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)});
  for (const auto& it : fleet_) it->Peek();
  Lose();
  TakeAll();
  clock_.Advance(minutes(1));
  Recover();
  for (const auto& it : fleet_) it->ChargeBackAll();
  EXPECT_EQ(server(0).Peek().limits[0].verdict.remaining, 100);
}

// If all units were charged, a long outage would leave a bucket in debt, although tokens were added
// during the outage.
TEST_F(ChargeBackTest, LongOutage_BucketsAreChargedOnlyForUnitsNotRefilled) {
  Start(TokenBucket{.rate = 3, .period = seconds(1), .burst = 90});
  for (const auto& it : fleet_) it->Peek();
  Lose();
  for (int second = 0; second < 100; ++second) {
    clock_.Advance(seconds(1));
    TakeAll();
  }
  Recover();
  for (const auto& it : fleet_) it->ChargeBackAll();
  const std::int64_t left = server(0).Peek().limits[0].verdict.remaining;
  EXPECT_GE(left, 0);
  EXPECT_LE(left, 3);
  EXPECT_LE(server(0).Peek().retry_after.value_or(Duration::zero()), seconds(1))
      << "each server rounds its charge up, so at most three tokens are missing";
}

TEST_F(ChargeBackTest, StoreStillDown_PendingChargesAreKept) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)}, 1);
  Lose();
  for (int i = 0; i < 60; ++i) server(0).Ask();
  server(0).ChargeBackAll();
  EXPECT_EQ(server(0).fallback.charges.size(), 1u);
  EXPECT_EQ(server(0).UnitsOfFate("owed"), 60u);
  Recover();
  server(0).ChargeBackAll();
  EXPECT_EQ(server(0).fallback.charges.size(), 0u);
  EXPECT_EQ(server(0).Peek().limits[0].verdict.remaining, 40);
}

// The store may have run the check. If its units were charged again, they would count twice.
TEST_F(ChargeBackTest, UnknownOutcome_IsNotChargedBack) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)}, 1);
  Stall(StoreFailure::kTimeout);
  for (int i = 0; i < 60; ++i) server(0).Ask();
  EXPECT_EQ(server(0).fallback.charges.size(), 0u);
  EXPECT_EQ(server(0).UnitsOfFate("unknown"), 60u);
}

// The store may have run the charge, although the reply was lost.
TEST_F(ChargeBackTest, ChargeBackOfUnknownOutcome_IsNotSentAgain) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)}, 1);
  Lose();
  for (int i = 0; i < 60; ++i) server(0).Ask();
  Stall(StoreFailure::kTimeout);
  store_->decides_unheard = true;
  server(0).ChargeBackAll();
  EXPECT_EQ(server(0).UnitsOfFate("unknown"), 60);
  Recover();
  server(0).ChargeBackAll();
  EXPECT_EQ(server(0).Peek().limits[0].verdict.remaining, 40);
}

TEST_F(ChargeBackTest, StoreTakesACharge_TheOtherChargesFollowTogether) {
  Start(FixedWindow{.limit = 100, .window = minutes(1)}, 1);
  rule_.per = {{"user", {}, {}}};
  server(0).SetRule(rule_);
  Lose();
  for (int user = 0; user < 50; ++user) server(0).Ask("user" + std::to_string(user));
  Recover();
  server(0).ChargeBack();
  EXPECT_EQ(server(0).fallback.charges.size(), 49u)
      << "only one charge is sent, to see whether the store is back";
  server(0).ChargeBack();
  EXPECT_EQ(server(0).fallback.charges.size(), 0u);
}

// The store cannot read one counter. This is no outage: the store still decides all other counters.
// The units of the unreadable counter wait, and are not sent to the store every 10 ms.
TEST_F(ChargeBackTest, StoreCannotReadOneCounter_OthersAreDecided_UnitsAreChargedLater) {
  for (const Limit& limit : {Limit(FixedWindow{.limit = 5, .window = hours(1)}),
                             Limit(Concurrency{.limit = 5, .ttl = minutes(1)})}) {
    Start(limit, 1);
    rule_.per = {{"user", {}, {}}};
    server(0).SetRule(rule_);
    store_->failing_key = "bad";
    Stall(StoreFailure::kCounterRejected);
    EXPECT_EQ(server(0).Ask("bad").source, Source::kFallback);
    const int before = store_->submitted;
    for (int i = 0; i < 50; ++i) {
      clock_.Advance(std::chrono::milliseconds(10));
      server(0).ChargeBack();
      EXPECT_EQ(server(0).Ask("good" + std::to_string(i)).source, Source::kStore);
    }
    EXPECT_EQ(store_->submitted, before + 50 + 1) << "the charge is sent once";
    EXPECT_TRUE(server(0).fallback.HasPending());
    Recover();
    for (int i = 0; i < 100; ++i) server(0).ChargeBack();
    EXPECT_FALSE(server(0).fallback.HasPending());
    const CheckAnswer answer = server(0).Ask("bad");
    EXPECT_EQ(answer.source, Source::kStore);
    EXPECT_EQ(answer.limits[0].verdict.remaining, 3);
  }
}

TEST_F(ChargeBackTest, ServerStopsInAnOutage_LogsWhatIsLost) {
  CapturedLog log;
  for (const bool lost : {false, true}) {
    for (const Limit& limit : {Limit(FixedWindow{.limit = 5, .window = hours(1)}),
                               Limit(Concurrency{.limit = 5, .ttl = minutes(1)})}) {
      Start(limit, 1);
      Lose();
      server(0).Ask(Mode::kConsume, 3);
      if (!lost) Recover();
      server(0).ChargeBackAll();
      server(0).fallback.LogLost();
    }
  }
  EXPECT_EQ(log.CountLines("are not charged"), 2) << log.text();
  EXPECT_EQ(log.CountLines("3 units admitted without Redis are not charged"), 1);
  EXPECT_EQ(log.CountLines("the changes of 1 leases are lost"), 1);
}

// After an outage, a server decides by itself for a grace period. If the period did not end when
// the clock is set back by 10 minutes, the server would decide by itself for 10 minutes more.
TEST_F(ChargeBackTest, ClockIsSetBackAfterAnOutage_StoreDecidesAtOnce) {
  Start(FixedWindow{.limit = 100, .window = hours(1)}, 1);
  Lose();
  server(0).Ask();
  clock_.Advance(seconds(1));
  Recover();
  server(0).Peek();
  EXPECT_EQ(server(0).Peek().source, Source::kFallback);
  clock_.Advance(-minutes(10));
  EXPECT_EQ(server(0).Peek().source, Source::kStore);
}

}  // namespace
}  // namespace sluice::test
