#include "limiter/check_call.h"

#include <gmock/gmock.h>

#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST_F(LimiterTest, NoRules_UnmatchedDecides) {
  EXPECT_EQ(Check().decision, Decision::kAllowed);
  EXPECT_EQ(Check().source, Source::kNoRule);
  SetRules({}, {.unmatched = Unmatched::kDeny});
  const CheckAnswer denied = Check();
  EXPECT_EQ(denied.decision, Decision::kDenied);
  EXPECT_EQ(denied.source, Source::kNoRule);
  EXPECT_FALSE(denied.retry_after);
  EXPECT_EQ(denied.decided_at, clock_.Now());
  EXPECT_FALSE(denied.unknown_domain);
}

TEST_F(LimiterTest, DomainWithoutRuleFile_IsUnknown) {
  SetRules({});
  call_.request.Clear();
  call_.request.domain = "shoop";
  call_.Start();
  ASSERT_TRUE(call_.answer && *call_.answer);
  EXPECT_TRUE(call_.answer->value().unknown_domain);
  EXPECT_FALSE(Check().unknown_domain) << "the next request of the same call";
}

TEST_F(LimiterTest, OneLimit_AllowsThenDeniesWithRetryAfter) {
  SetRules({RuleOf("two", {PerMinute(2)})});
  EXPECT_EQ(Check().decision, Decision::kAllowed);
  clock_.Advance(seconds(10));
  const CheckAnswer second = Check();
  EXPECT_EQ(second.source, Source::kStore);
  EXPECT_FALSE(second.retry_after);
  ASSERT_EQ(second.limits.size(), 1u);
  EXPECT_EQ(second.limits[0].rule->rule.name, "two");
  EXPECT_EQ(second.limits[0].verdict.remaining, 0);
  const CheckAnswer third = Check();
  EXPECT_EQ(third.decision, Decision::kDenied);
  EXPECT_EQ(third.retry_after, seconds(50));
}

TEST_F(LimiterTest, FirstOfTwoEqualLimitsIsRemoved_TheOtherKeepsItsCount) {
  const RuleLimit large(PerMinute(50), "large");
  SetRules({RuleOf("r", {PerMinute(50), large})});
  Check({}, 20);
  SetRules({RuleOf("r", {large, PerMinute(30)})});
  const CheckAnswer both = Check({}, 10);
  EXPECT_EQ(both.limits.at(0).verdict.remaining, 20);
  EXPECT_EQ(both.limits.at(1).verdict.remaining, 0);
  SetRules({RuleOf("r", {large})});
  EXPECT_EQ(Check().limits.at(0).verdict.remaining, 19);
  SetRules({RuleOf("r", {PerMinute(31)})});
  EXPECT_EQ(Check().limits.at(0).verdict.remaining, 0);
}

TEST_F(LimiterTest, PerHasChanged_CountersAreNotShared) {
  Rule rule = RuleOf("r", {PerMinute(5)});
  rule.per = {{"user", {}, {}}};
  SetRules({rule});
  EXPECT_EQ(Check({{"user", "42"}, {"org", "7"}}, 5).limits.at(0).verdict.remaining, 0);
  rule.per = {{"org", {}, {}}};
  SetRules({rule});
  EXPECT_EQ(Check({{"user", "1"}, {"org", "42"}}).limits.at(0).verdict.remaining, 4);
}

TEST_F(LimiterTest, SeveralLimitsDeny_RetryAfterIsTheLongest_AbsentIfOneLimitNeverAdmits) {
  SetRules({RuleOf("a", {PerMinute(1), FixedWindow{.limit = 1, .window = seconds(600)}}),
            RuleOf("b", {PerMinute(5)})});
  Check();
  EXPECT_EQ(Check().retry_after, seconds(600));
  EXPECT_EQ(Check({}, 6).retry_after, std::nullopt);
}

TEST_F(LimiterTest, TwoRules_OneDenies_TheOtherIsNotCharged) {
  SetRules({RuleOf("wide", {PerMinute(100)}), RuleOf("narrow", {PerMinute(3)})});
  for (int i = 0; i < 10; ++i) Check();
  EXPECT_EQ(Check({}, 0).limits[0].verdict.remaining, 97);
}

TEST_F(LimiterTest, RulesThatDoNotCount_DecideBeforeTheStore) {
  Rule blocked = RuleOf("blocked", {});
  blocked.limits.effect = Limits::Effect::kBlocked;
  blocked.match = {{"user", {Pattern::Kind::kExact, "mallory", {}}}};
  Rule unlimited = RuleOf("unlimited", {});
  unlimited.limits.effect = Limits::Effect::kUnlimited;
  unlimited.match = {{"office", {Pattern::Kind::kExists, "", {}}}};
  Rule strict = RuleOf("strict", {PerMinute(1)});
  strict.per = {{"user", {}, {}}};
  strict.missing = OnMissing::kDeny;
  SetRules({unlimited, strict, blocked});

  const CheckAnswer mallory = Check({{"user", "mallory"}, {"office", "1"}});
  EXPECT_EQ(mallory.decision, Decision::kDenied) << "blocked has priority over unlimited";
  EXPECT_EQ(mallory.source, Source::kRule);
  EXPECT_FALSE(mallory.retry_after);
  ASSERT_EQ(mallory.limits.size(), 1u);
  EXPECT_EQ(mallory.limits[0].rule->rule.name, "blocked");
  EXPECT_EQ(mallory.limits[0].algorithm, std::nullopt);
  EXPECT_EQ(mallory.limits[0].source, Source::kRule);
  EXPECT_EQ(Check({{"office", "1"}}).decision, Decision::kAllowed);
  EXPECT_EQ(Check({{"office", "1"}}).source, Source::kRule);
  const CheckAnswer anonymous = Check();
  EXPECT_EQ(anonymous.decision, Decision::kDenied)
      << "the rule 'strict' denies requests without a user";
  EXPECT_EQ(anonymous.source, Source::kRule);
  ASSERT_EQ(anonymous.limits.size(), 1u);
  EXPECT_EQ(anonymous.limits[0].rule->rule.name, "strict");
  ASSERT_EQ(anonymous.missing_attributes.size(), 1u);
  EXPECT_EQ(anonymous.missing_attributes[0].rule->rule.name, "strict");
  EXPECT_EQ(anonymous.missing_attributes[0].attribute, "user");
  EXPECT_EQ(store_.submitted, 0);
  EXPECT_EQ(Check({{"user", "bob"}}).source, Source::kStore);
}

TEST_F(LimiterTest, OverrideLiftsTheLimits_AllowsEvenIfUnmatchedDenies) {
  Rule rule = RuleOf("r", {PerMinute(1)});
  Override gold;
  gold.match = {{"plan", {Pattern::Kind::kExact, "gold", {}}}};
  gold.limits.effect = Limits::Effect::kUnlimited;
  rule.overrides = {gold};
  SetRules({rule}, {.unmatched = Unmatched::kDeny});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Check({{"plan", "gold"}}).decision, Decision::kAllowed);
    EXPECT_EQ(Check({{"plan", "gold"}}).source, Source::kRule);
  }
  Check();
  EXPECT_EQ(Check().decision, Decision::kDenied);
}

TEST_F(LimiterTest, MissingAttribute_RuleIsSkipped) {
  Rule rule = RuleOf("per-user", {PerMinute(1)});
  rule.per = {{"user", {}, {}}};
  SetRules({rule});
  for (int i = 0; i < 3; ++i) {
    const CheckAnswer answer = Check();
    EXPECT_EQ(answer.source, Source::kNoRule);
    EXPECT_TRUE(answer.limits.empty());
    ASSERT_EQ(answer.missing_attributes.size(), 1u);
    EXPECT_EQ(answer.missing_attributes[0].rule->rule.name, "per-user");
    EXPECT_EQ(answer.missing_attributes[0].attribute, "user");
  }
  EXPECT_TRUE(Check({{"user", "bob"}}).missing_attributes.empty());
  EXPECT_EQ(Check({{"user", "bob"}}).decision, Decision::kDenied);
  EXPECT_EQ(Check({{"user", "eve"}}).decision, Decision::kAllowed);
}

TEST_F(LimiterTest, ShadowRule_IsReportedLastAndNeverDecides) {
  Rule shadow = RuleOf("tomorrow", {PerMinute(1)});
  shadow.shadow = true;
  SetRules({shadow, RuleOf("today", {PerMinute(3)})});
  for (int i = 0; i < 5; ++i) {
    const CheckAnswer answer = Check();
    EXPECT_EQ(answer.decision, i < 3 ? Decision::kAllowed : Decision::kDenied);
    ASSERT_EQ(answer.limits.size(), 2u);
    EXPECT_EQ(answer.limits[1].rule->rule.name, "tomorrow");
    EXPECT_EQ(answer.limits[1].verdict.admitted, i < 1);
  }
}

TEST_F(LimiterTest, ShadowRuleAlone_UnmatchedDecides) {
  Rule shadow = RuleOf("tomorrow", {PerMinute(1)});
  shadow.shadow = true;
  SetRules({shadow});
  EXPECT_EQ(Check().limits[0].verdict.remaining, 0);
  EXPECT_EQ(Check().decision, Decision::kAllowed);
  EXPECT_FALSE(Check().limits[0].verdict.admitted);
  EXPECT_EQ(Check().source, Source::kNoRule);
  SetRules({shadow}, {.unmatched = Unmatched::kDeny});
  clock_.Advance(seconds(60));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Check().decision, Decision::kDenied);
    EXPECT_EQ(Check().limits[0].verdict.remaining, 1) << "a denied check is not charged";
  }
}

TEST_F(LimiterTest, ShadowRuleWhoseLimitsAreLifted_UnmatchedDecides) {
  Rule shadow = RuleOf("tomorrow", {PerMinute(1)});
  shadow.shadow = true;
  Override lifted;
  lifted.limits.effect = Limits::Effect::kUnlimited;
  shadow.overrides = {lifted};
  SetRules({shadow}, {.unmatched = Unmatched::kDeny});
  EXPECT_EQ(Check().decision, Decision::kDenied);
  EXPECT_EQ(Check().source, Source::kNoRule);
}

TEST_F(LimiterTest, StoreDeadline_IsTheEarlierOfTimeoutAndCallersDeadline) {
  SetRules({RuleOf("r", {PerMinute(100)})});
  const SteadyTime before = SteadyNow();
  Check();
  EXPECT_GE(store_.deadline, before + milliseconds(10));
  EXPECT_LE(store_.deadline, SteadyNow() + milliseconds(10));
  for (const auto remaining : {milliseconds(5), milliseconds(10), milliseconds(100)}) {
    call_.request.Clear();
    call_.request.domain = "shop";
    SteadyTime callers;
    // If this thread was interrupted so long that the check was not sent, repeats the check.
    do {
      callers = call_.request.deadline = SteadyNow() + remaining;
      call_.Start();
    } while (SteadyNow() >= callers);
    EXPECT_LE(store_.deadline, store_.last_deadline);
    EXPECT_LE(store_.deadline, SteadyNow() + milliseconds(10));
    const auto reserve = callers - store_.last_deadline;
    EXPECT_LE(reserve, milliseconds(1));
    EXPECT_LE(reserve, remaining / 5);
    EXPECT_GE(reserve,
              std::min<SteadyTime::duration>(milliseconds(1), (callers - SteadyNow()) / 5));
  }
}

// If the failure policy decided, a caller could get the policy's decision by sending a deadline
// that is too short.
TEST_F(LimiterTest, CallersDeadlinePasses_NoPolicyDecides) {
  Rule rule = RuleOf("r", {PerMinute(1)});
  for (const OnStoreFailure policy :
       {OnStoreFailure::kLocal, OnStoreFailure::kAllow, OnStoreFailure::kDeny}) {
    rule.on_store_failure = policy;
    SetRules({rule});
    Check();
    for (const auto later : {std::chrono::nanoseconds(1), std::chrono::nanoseconds(0)}) {
      store_.submitted = 0;
      CheckRequest request;
      request.deadline = SteadyNow() + later;
      EXPECT_EQ(TryAsk(request).error().code, ErrorCode::kDeadlineExceeded);
      EXPECT_EQ(store_.submitted, 0) << "the store could not answer in time";
    }
    store_.failing = StoreFailure::kCallerTimeout;
    EXPECT_EQ(TryCheck().error().code, ErrorCode::kDeadlineExceeded);
    store_.failing.reset();
    EXPECT_EQ(local_.submitted, 0);
  }
  EXPECT_EQ(Value("sluice_refused_total{code=\"deadline_exceeded\"}"), 9);
  EXPECT_EQ(Value("sluice_store_failures_total{kind=\"caller_timeout\"}"), 9);
}

// One call object serves one request after the other.
TEST_F(LimiterTest, NextCall_DoesNotUndoTheLateCheckOfThePreviousCall) {
  SetRules({RuleOf("r", {PerMinute(10)})});
  store_.failing = StoreFailure::kTimeout;
  store_.sent = true;
  Check();
  CheckRequest request;
  request.deadline = SteadyNow();
  EXPECT_FALSE(TryAsk(request));
  EXPECT_FALSE(store_.late->undo) << "the late check was admitted";
}

TEST_F(LimiterTest, RulesAreReplaced_NextCallUsesThem_CountersContinue) {
  SetRules({RuleOf("r", {PerMinute(2)})});
  Check();
  SetRules({RuleOf("r", {PerMinute(5)})});
  EXPECT_EQ(Check().limits[0].verdict.remaining, 3);
}

TEST_F(LimiterTest, RequestHasItsOwnLimitsAndRules_TheyDecide) {
  Rule rule = RuleOf("r", {FixedWindow{.limit = 5, .window = std::chrono::hours(1)}});
  rule.counter = "shared";
  SetRules({rule});
  CheckRequest request;
  request.rules = limiter_.rules();
  const IndexedLimit own{.limit = FixedWindow{.limit = 2, .window = std::chrono::hours(1)},
                         .tag = "fixed_window:1h"};
  request.limits = {&own, 1};
  SetRules({});
  const CheckAnswer first = Ask(request);
  ASSERT_EQ(first.limits.size(), 1u);
  EXPECT_EQ(first.limits[0].verdict.limit, 2);
  EXPECT_EQ(first.limits[0].verdict.remaining, 1);
  // The request used the rule's `counter`, which does not depend on the rule's name.
  rule.name = "other";
  SetRules({rule});
  EXPECT_EQ(Check().limits[0].verdict.remaining, 3);
  SetRules({});
  EXPECT_TRUE(Check().limits.empty());
}

}  // namespace
}  // namespace sluice::test
