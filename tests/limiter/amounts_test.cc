// Limits that count amounts of a request other than its cost.
#include <gmock/gmock.h>

#include "tests/limiter/fixture.h"
#include "tests/support/captured_log.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RuleLimit Counting(Limit limit, Counts counts, std::string name = {}) {
  RuleLimit counting(limit, std::move(name));
  counting.counts = std::move(counts);
  return counting;
}

class AmountsTest : public LimiterTest {
 protected:
  static CheckRequest Request(Mode mode, std::int64_t cost, std::vector<Amount> amounts) {
    CheckRequest request = RequestOf(mode, static_cast<std::uint64_t>(cost));
    request.amounts = std::move(amounts);
    return request;
  }
  CheckAnswer Consume(std::vector<Amount> amounts) {
    return Ask(Request(Mode::kConsume, 1, std::move(amounts)));
  }

  // The decision, and "remaining/units" of each limit.
  static std::string Text(const CheckAnswer& answer) {
    std::string text = answer.decision == Decision::kAllowed ? "allowed" : "denied";
    for (const LimitAnswer& limit : answer.limits) {
      text += " " + std::to_string(limit.verdict.remaining) + "/" + std::to_string(limit.units);
    }
    return text;
  }
};

class ModelTest : public AmountsTest {
 protected:
  // The rule's limits count requests, tokens and money.
  ModelTest() {
    SetRules(
        {RuleOf("model", {Counting(PerMinute(3), {{"requests", 1}}),
                          Counting(PerMinute(100), {{"input", 1}, {"output", 1}}),
                          Counting(PerMinute(1'000), {{"input", 3}, {"output", 15}}, "money")})});
  }
};

TEST_F(ModelTest, EveryLimitTakesItsUnits_OrNoLimitTakesAny) {
  EXPECT_EQ(Text(Consume({{"input", 20}, {"output", 10}})), "allowed 2/1 70/30 790/210");
  EXPECT_EQ(Text(Consume({{"output", 70}})), "denied 2/1 70/70 790/1050") << "too expensive";
  EXPECT_EQ(Text(Consume({{"input", 71}})), "denied 2/1 70/71 790/213") << "too many tokens";
  EXPECT_EQ(Text(Consume({{"input", 70}})), "allowed 1/1 0/70 580/210");
  EXPECT_EQ(Text(Consume({})), "allowed 0/1 0/0 580/0") << "a request without tokens";
  EXPECT_EQ(Text(Consume({})), "denied 0/1 0/0 580/0");
}

TEST_F(ModelTest, Charge_TakesTheGivenAmounts_TheNextRequestIsDenied) {
  EXPECT_EQ(Text(Consume({})), "allowed 2/1 100/0 1000/0");
  EXPECT_EQ(Text(Ask(Request(Mode::kCharge, 0, {{"input", 150}}))), "denied 2/0 0/150 550/450");
  EXPECT_EQ(Text(Consume({})), "denied 2/1 0/0 550/0") << "the tokens are overdrawn";
  EXPECT_EQ(Text(Ask(Request(Mode::kRefund, 0, {{"input", 60}}))), "allowed 2/0 10/60 730/180");
  EXPECT_EQ(Text(Consume({})), "allowed 1/1 10/0 730/0");
}

TEST_F(ModelTest, Peek_ReportsTheUnits_TakesNothing) {
  EXPECT_EQ(Text(Ask(Request(Mode::kPeek, 1, {{"input", 20}}))), "allowed 3/1 100/20 1000/60");
  EXPECT_EQ(Text(Ask(Request(Mode::kPeek, 1, {{"input", 101}}))), "denied 3/1 100/101 1000/303");
  EXPECT_EQ(Text(Consume({})), "allowed 2/1 100/0 1000/0");
}

TEST_F(ModelTest, CostOfZero_IsAPeek_UnlessAnAmountIsAboveZero) {
  EXPECT_EQ(Text(Ask(Request(Mode::kConsume, 0, {{"input", 0}}))), "allowed 3/0 100/0 1000/0");
  EXPECT_EQ(Text(Ask(Request(Mode::kConsume, 0, {{"input", 20}}))), "allowed 3/0 80/20 940/60");
  EXPECT_EQ(Text(Ask(Request(Mode::kPeek, 0, {}))), "allowed 3/0 80/0 940/0");
}

TEST_F(ModelTest, AmountNamedRequests_IsTheNumberOfRequests) {
  EXPECT_EQ(Text(Consume({{"requests", 2}})), "allowed 1/2 100/0 1000/0");
  EXPECT_EQ(Text(Ask(Request(Mode::kRefund, 1, {{"requests", 1}}))), "allowed 2/1 100/0 1000/0");
}

TEST_F(ModelTest, UnitsBeyondTheMaximum_AreInvalid_NothingIsTaken) {
  const auto answer = TryAsk(Request(Mode::kConsume, 1, {{"input", kMaxCost / 2}}));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      answer.error().message,
      "amounts: limits[2] of rule \"model\" counts more than 2^53 (9007199254740992) units in "
      "this request");
  EXPECT_EQ(Text(Consume({})), "allowed 2/1 100/0 1000/0");
}

TEST_F(ModelTest, TakenUnits_AreCountedInTheMetric) {
  const auto units = [&](int limit) {
    return Value("sluice_units_total{domain=\"shop\",limit=\"" + std::to_string(limit) +
                 "\",rule=\"model\"}");
  };
  Consume({{"input", 20}, {"output", 10}});
  Consume({{"input", 101}});
  Ask(Request(Mode::kPeek, 1, {{"input", 1}}));
  EXPECT_EQ(units(0), 1);
  EXPECT_EQ(units(1), 30);
  EXPECT_EQ(units(2), 210);
  Ask(Request(Mode::kCharge, 0, {{"input", 200}}));
  Ask(Request(Mode::kRefund, 0, {{"input", 1}}));
  EXPECT_EQ(units(1), 230) << "units of denied charges are taken";
}

TEST_F(AmountsTest, UnitsOfAShadowRule_AreCountedInTheMetricIfTheRuleAdmits) {
  Rule shadow = RuleOf("trial", {PerMinute(9), Counting(PerMinute(5), {{"bytes", 1}})});
  shadow.shadow = true;
  SetRules({shadow});
  const std::string series = "sluice_units_total{domain=\"shop\",limit=\"1\",rule=\"trial\"}";
  Consume({{"bytes", 4}});
  Consume({{"bytes", 4}});
  EXPECT_EQ(Value(series), 4);
}

TEST_F(AmountsTest, OverrideWithOtherWeights_UsesTheSameCounters) {
  Rule rule = RuleOf("r", {Counting(PerMinute(100), {{"in", 3}})});
  rule.overrides = {{.match = {{"model", {Pattern::Kind::kExact, "large", {}}}}, .limits = {}}};
  rule.overrides[0].limits.limits = {Counting(PerMinute(100), {{"in", 15}})};
  SetRules({rule});
  EXPECT_EQ(Text(Consume({{"in", 10}})), "allowed 70/30");
  CheckRequest large = Request(Mode::kConsume, 1, {{"in", 4}});
  large.attributes = {{"model", "large"}};
  EXPECT_EQ(Text(Ask(large)), "allowed 10/60");
}

TEST_F(AmountsTest, LimitThatCountsTheCost_IgnoresAmounts) {
  SetRules({RuleOf("r", {PerMinute(10), Counting(PerMinute(10), {{"bytes", 1}})})});
  EXPECT_EQ(Text(Ask(Request(Mode::kConsume, 4, {{"bytes", 7}}))), "allowed 6/4 3/7");
  EXPECT_EQ(Text(Ask(Request(Mode::kCharge, 0, {{"bytes", 1}}))), "allowed 6/0 2/1");
}

TEST_F(AmountsTest, RequestWithoutCountedAmounts_TakesNothing) {
  SetRules({RuleOf(
      "r", {Counting(TokenBucket{.rate = 1, .period = seconds(1), .burst = 5}, {{"bytes", 1}})})});
  EXPECT_EQ(Text(Ask(Request(Mode::kCharge, 1, {}))), "allowed 5/0");
  EXPECT_EQ(Text(Ask(Request(Mode::kRefund, 1, {}))), "allowed 5/0");
  EXPECT_EQ(Text(Ask(Request(Mode::kCharge, 1, {{"bytes", 6}}))), "denied 0/6");
  EXPECT_EQ(Text(Consume({})), "denied 0/0") << "a debt denies even a request that takes nothing";
  EXPECT_EQ(Text(Ask(Request(Mode::kRefund, 1, {}))), "allowed 0/0");
  clock_.Advance(seconds(1));
  EXPECT_EQ(Text(Consume({})), "allowed 0/0");
}

TEST_F(ModelTest, AmountThatNoRuleCounts_IsIgnoredAndNamed) {
  const CapturedLog log;
  const CheckAnswer answer = Consume({{"inptu", 20}, {"output", 1}, {"bytes", 0}});
  EXPECT_EQ(Text(answer), "allowed 2/1 99/1 985/15");
  EXPECT_THAT(answer.uncounted_amounts, ElementsAre("inptu", "bytes"));
  EXPECT_THAT(Consume({{"output", 1}}).uncounted_amounts, IsEmpty());
  Consume({{"secret\n", 1}});
  EXPECT_EQ(Value("sluice_uncounted_amounts_total{domain=\"shop\"}"), 3);
  EXPECT_THAT(log.Lines("which no rule of the domain counts"),
              ElementsAre("warning domain \"shop\": a check has an amount \"inptu\", which no rule "
                          "of the domain counts"))
      << "logged once a second";
}

// Callers choose the names of amounts and domains. A name that no rule has must not become a label.
TEST_F(ModelTest, UnknownDomain_AnswerNamesTheAmounts_DomainIsNoLabel) {
  call_.request = Request(Mode::kConsume, 1, {{"output", 1}});
  call_.request.domain = "shoop";
  call_.Start();
  ASSERT_TRUE(call_.answer && *call_.answer);
  EXPECT_THAT((*call_.answer)->uncounted_amounts, ElementsAre("output"));
  EXPECT_EQ(Value("sluice_uncounted_amounts_total{domain=\"\"}"), 1);
  EXPECT_THAT(metrics_.Render(), testing::Not(HasSubstr("shoop")));
}

// A caller should learn of a misspelled name even if the request is blocked.
TEST_F(AmountsTest, BlockedRequest_AnswerNamesUncountedAmounts) {
  Rule blocked = RuleOf("blocked", {});
  blocked.limits.effect = Limits::Effect::kBlocked;
  Rule other = RuleOf("other", {Counting(PerMinute(1), {{"bytes", 1}})});
  other.match = {{"user", {}}};
  SetRules({blocked, other});
  EXPECT_THAT(Consume({{"bytes", 1}, {"byte", 1}}).uncounted_amounts, ElementsAre("byte"))
      << "the rule 'other' counts bytes, although it does not match";
}

TEST_F(AmountsTest, ConcurrencyWithCounts_TakesOneSlotPerCountedUnit) {
  SetRules({RuleOf("r", {Counting(Concurrency{.limit = 10, .ttl = seconds(30)}, {{"gpus", 2}})})});
  const CheckAnswer held = Consume({{"gpus", 3}});
  EXPECT_EQ(Text(held), "allowed 4/6");
  ASSERT_TRUE(held.lease);
  EXPECT_EQ(Text(Consume({{"gpus", 3}})), "denied 4/6");
  EXPECT_FALSE(Consume({}).lease) << "no slot is taken";
  EXPECT_TRUE(Release(held.lease->id));
  EXPECT_EQ(Text(Consume({})), "allowed 10/0");
}

}  // namespace
}  // namespace sluice::test
