// Modes other than an immediate consume: charge, refund, peek, and waits.
#include <gmock/gmock.h>

#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

Concurrency Slots(std::int64_t limit) { return {.limit = limit, .ttl = seconds(30)}; }

// A queue that drains one unit every `period`. `delays`: whether callers must wait for their turn.
LeakyBucket Queue(Duration period, bool delays = true) {
  return {.rate = 1, .period = period, .queue = 10, .delays = delays};
}

class ModesTest : public LimiterTest {
 protected:
  CheckAnswer Charge(std::uint64_t cost) { return Ask(RequestOf(Mode::kCharge, cost)); }
  CheckAnswer Refund(std::uint64_t cost, std::optional<Time> charged_at = std::nullopt) {
    CheckRequest request = RequestOf(Mode::kRefund, cost);
    request.demand.charged_at = charged_at;
    return Ask(request);
  }
  CheckAnswer CheckWaiting(std::optional<Duration> max_wait) {
    CheckRequest request;
    request.demand.max_wait = max_wait;
    return Ask(request);
  }
  std::int64_t Remaining(std::size_t limit = 0) {
    return Ask(RequestOf(Mode::kPeek)).limits.at(limit).verdict.remaining;
  }
};

TEST_F(ModesTest, Charge_DecidesAsConsume_AlwaysCharges) {
  SetRules({RuleOf("wide", {PerMinute(100)}), RuleOf("narrow", {PerMinute(10)})});
  const CheckAnswer fits = Charge(8);
  EXPECT_EQ(fits.decision, Decision::kAllowed);
  EXPECT_EQ(fits.limits[1].verdict.remaining, 2);
  const CheckAnswer beyond = Charge(8);
  EXPECT_EQ(beyond.decision, Decision::kDenied);
  EXPECT_EQ(beyond.retry_after, seconds(60));
  EXPECT_TRUE(beyond.limits[0].verdict.admitted);
  EXPECT_EQ(beyond.limits[0].verdict.remaining, 84)
      << "it is charged, although another limit denied";
  EXPECT_EQ(Refund(7).limits[1].verdict.remaining, 1) << "9 of the 16 charged units still count";
}

TEST_F(ModesTest, Charge_BeyondTheMaximumDebt_IsDroppedAndReported) {
  SetRules({RuleOf("r", {TokenBucket{.rate = 1, .period = seconds(1), .burst = 5}})});
  const CheckAnswer answer = Charge(1'000);
  EXPECT_EQ(answer.decision, Decision::kDenied);
  EXPECT_EQ(answer.limits[0].verdict.dropped, 1'000 - 5 - 600) << "the debt is 600 units";
  clock_.Advance(seconds(600));
  EXPECT_EQ(Check().decision, Decision::kDenied);
  clock_.Advance(seconds(1));
  EXPECT_EQ(Check().decision, Decision::kAllowed);
}

TEST_F(ModesTest, Refund_GivesBackAtMostTheTakenUnits) {
  SetRules({RuleOf("r", {PerMinute(10)})});
  Check({}, 6);
  EXPECT_EQ(Refund(2).decision, Decision::kAllowed);
  EXPECT_EQ(Remaining(), 6);
  Refund(100);
  EXPECT_EQ(Remaining(), 10);
}

TEST_F(ModesTest, Refund_OfAWindowThatHasEnded_ChangesNothing) {
  SetRules({RuleOf("r", {PerMinute(10)})});
  const Time charged_at = Check({}, 5).decided_at;
  clock_.Advance(seconds(61));
  const Time charged_again_at = Check({}, 5).decided_at;
  EXPECT_EQ(Refund(1, charged_at).decision, Decision::kAllowed);
  EXPECT_EQ(Remaining(), 5);
  Refund(1, charged_again_at);
  EXPECT_EQ(Remaining(), 6);
}

TEST_F(ModesTest, Peek_DecidesAsConsume_TakesNothing) {
  SetRules({RuleOf("r", {PerMinute(2), Slots(5)})});
  Check();
  for (int i = 0; i < 3; ++i) {
    const CheckAnswer answer = Ask(RequestOf(Mode::kPeek));
    EXPECT_EQ(answer.decision, Decision::kAllowed);
    EXPECT_FALSE(answer.lease);
    EXPECT_EQ(answer.limits[0].verdict.remaining, 1);
    EXPECT_EQ(answer.limits[1].verdict.remaining, 4);
  }
  EXPECT_EQ(Ask(RequestOf(Mode::kPeek, 2)).decision, Decision::kDenied);
}

TEST_F(ModesTest, OneLimitDoesNotSupportTheMode_TheOthersDecide) {
  struct Row {
    const char* name;
    Limit skipped;
    Mode mode;
  };
  const Row rows[] = {
      {"charge a slot", Slots(5), Mode::kCharge},
      {"refund a slot", Slots(5), Mode::kRefund},
      {"refund a place", Queue(seconds(1)), Mode::kRefund},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    SetRules({RuleOf(row.name, {row.skipped, PerMinute(10)})});
    const CheckAnswer before = Check();
    const CheckAnswer answer = Ask(RequestOf(row.mode));
    EXPECT_EQ(answer.decision, Decision::kAllowed);
    EXPECT_FALSE(answer.lease);
    ASSERT_EQ(answer.limits.size(), 1u);
    EXPECT_EQ(answer.limits[0].index, 1u);
    EXPECT_EQ(Remaining(0), before.limits[0].verdict.remaining);
    EXPECT_EQ(Remaining(1), row.mode == Mode::kCharge ? 8 : 10);
  }
}

TEST_F(ModesTest, NoLimitSupportsTheMode_IsRefused) {
  struct Row {
    const char* name;
    std::vector<RuleLimit> limits;
    Mode mode;
    bool refused;
  };
  const Row rows[] = {
      {"charge a slot", {Slots(5)}, Mode::kCharge, true},
      {"refund a slot", {Slots(5)}, Mode::kRefund, true},
      {"peek at a slot", {Slots(5)}, Mode::kPeek, false},
      {"charge a queue", {Queue(seconds(1))}, Mode::kCharge, false},
      {"refund a place", {Queue(seconds(1))}, Mode::kRefund, true},
      {"refund both", {Queue(seconds(1)), Slots(5)}, Mode::kRefund, true},
      {"refund without delay", {Queue(seconds(1), false)}, Mode::kRefund, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    SetRules({RuleOf(row.name, row.limits)});
    const auto answer = TryAsk(RequestOf(row.mode));
    EXPECT_EQ(!answer, row.refused);
    if (answer) continue;
    EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(answer.error().message, HasSubstr("mode"));
  }
}

TEST_F(ModesTest, ShadowRuleDoesNotSupportTheMode_IsNotRefused) {
  Rule shadow = RuleOf("tomorrow", {Slots(5)});
  shadow.shadow = true;
  SetRules({shadow});
  const CheckAnswer answer = Charge(1);
  EXPECT_EQ(answer.decision, Decision::kAllowed);
  EXPECT_EQ(answer.source, Source::kNoRule);
}

// The rule matches, although it has no limit for the mode.
TEST_F(ModesTest, EnforcedRuleDoesNotSupportTheMode_UnmatchedDoesNotDecide) {
  Rule shadow = RuleOf("tomorrow", {PerMinute(10)});
  shadow.shadow = true;
  SetRules({RuleOf("today", {Slots(5)}), shadow}, {.unmatched = Unmatched::kDeny});
  const CheckAnswer answer = Charge(1);
  EXPECT_EQ(answer.decision, Decision::kAllowed);
  EXPECT_EQ(answer.source, Source::kRule);
}

TEST_F(ModesTest, SeveralQueues_LongestWaitOfEnforcedRulesCounts) {
  Rule shadow = RuleOf("tomorrow", {Queue(seconds(100))});
  shadow.shadow = true;
  SetRules({RuleOf("r", {Queue(seconds(1)), Queue(seconds(10))}), shadow});
  EXPECT_EQ(Check().wait, Duration::zero());
  const CheckAnswer second = Check();
  EXPECT_EQ(second.wait, seconds(10));
  EXPECT_EQ(second.limits[2].verdict.wait, seconds(100));
}

TEST_F(ModesTest, MaxWait_BoundsQueuesAndLetsBucketsWait) {
  struct Row {
    const char* name;
    Limit limit;
    std::optional<Duration> max_wait;
    std::optional<Duration> wait;  // none: denied
  };
  const Limit bucket = TokenBucket{.rate = 1, .period = seconds(10), .burst = 1};
  const Limit queue = Queue(seconds(10));
  const Row rows[] = {
      {"bucket", bucket, std::nullopt, std::nullopt},
      {"bucket at once", bucket, seconds(0), std::nullopt},
      {"bucket too late", bucket, seconds(9), std::nullopt},
      {"bucket in time", bucket, seconds(10), seconds(10)},
      {"queue", queue, std::nullopt, seconds(10)},
      {"queue at once", queue, seconds(0), std::nullopt},
      {"queue too late", queue, seconds(9), std::nullopt},
      {"queue in time", queue, seconds(60), seconds(10)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    SetRules({RuleOf(row.name, {row.limit})});
    Check();
    const CheckAnswer answer = CheckWaiting(row.max_wait);
    EXPECT_EQ(answer.decision, row.wait ? Decision::kAllowed : Decision::kDenied);
    EXPECT_EQ(answer.wait, row.wait.value_or(Duration::zero()));
  }
}

}  // namespace
}  // namespace sluice::test
