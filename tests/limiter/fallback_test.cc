// What checks answer while the store fails, rule by rule.
#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

class FallbackTest : public LimiterTest {
 protected:
  void SetUp() override { store_.failing = StoreFailure::kTimeout; }

  static Rule WithPolicy(std::string name, OnStoreFailure policy, std::int64_t limit = 2) {
    Rule rule = RuleOf(std::move(name), {FixedWindow{.limit = limit, .window = seconds(60)}});
    rule.on_store_failure = policy;
    return rule;
  }
};

TEST_F(FallbackTest, Allow_AdmitsAndClaimsToKnowNothing) {
  SetRules({WithPolicy("r", OnStoreFailure::kAllow)});
  for (int i = 0; i < 5; ++i) {
    const CheckAnswer answer = Check();
    EXPECT_EQ(answer.decision, Decision::kAllowed);
    EXPECT_EQ(answer.source, Source::kFallback);
    EXPECT_EQ(answer.limits[0].source, Source::kFallback);
    EXPECT_FALSE(answer.limits[0].state_known);
  }
}

TEST_F(FallbackTest, Deny_DeniesAndSaysWhenToAskAgain) {
  SetRules({WithPolicy("r", OnStoreFailure::kDeny)});
  const CheckAnswer answer = Check();
  EXPECT_EQ(answer.decision, Decision::kDenied);
  EXPECT_EQ(answer.source, Source::kFallback);
  EXPECT_EQ(answer.retry_after, seconds(1));
}

TEST_F(FallbackTest, Error_IsUnavailable) {
  SetRules({WithPolicy("r", OnStoreFailure::kError)});
  const auto answer = TryCheck();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

TEST_F(FallbackTest, Local_DecidesHereWithThisServersShare) {
  SetRules({WithPolicy("r", OnStoreFailure::kLocal, 9)}, {.fleet_share = 1.0 / 3});
  for (int i = 0; i < 5; ++i) {
    const CheckAnswer answer = Check();
    EXPECT_EQ(answer.decision, i < 3 ? Decision::kAllowed : Decision::kDenied);
    EXPECT_EQ(answer.source, Source::kFallback);
    EXPECT_TRUE(answer.limits[0].state_known);
    EXPECT_EQ(answer.limits[0].verdict.limit, 3);
  }
}

TEST_F(FallbackTest, SeveralRules_AnyDenyDenies_ThenAnyErrorIsAnError) {
  using enum OnStoreFailure;
  struct Row {
    OnStoreFailure first, second;
    std::optional<Decision> decision;  // none: UNAVAILABLE
  };
  const Row rows[] = {
      {kAllow, kAllow, Decision::kAllowed}, {kAllow, kDeny, Decision::kDenied},
      {kLocal, kDeny, Decision::kDenied},   {kError, kDeny, Decision::kDenied},
      {kLocal, kAllow, Decision::kAllowed}, {kError, kAllow, std::nullopt},
      {kError, kLocal, std::nullopt},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    SetRules({WithPolicy("a", row.first), WithPolicy("b", row.second)});
    const auto answer = TryCheck();
    const auto decision = answer ? std::optional(answer->decision) : std::nullopt;
    EXPECT_EQ(decision, row.decision);
  }
}

TEST_F(FallbackTest, LocalRuleBesideOneThatRefuses_IsNotCharged) {
  SetRules({WithPolicy("local", OnStoreFailure::kLocal), WithPolicy("no", OnStoreFailure::kDeny)});
  for (int i = 0; i < 5; ++i) Check();
  SetRules({WithPolicy("local", OnStoreFailure::kLocal)});
  EXPECT_EQ(Check({}, 0).limits[0].verdict.remaining, 2);
}

TEST_F(FallbackTest, ExhaustedLocalRule_DeniesBeforeAnotherRulesError) {
  SetRules({WithPolicy("local", OnStoreFailure::kLocal, 1)});
  Check();
  SetRules(
      {WithPolicy("local", OnStoreFailure::kLocal, 1), WithPolicy("e", OnStoreFailure::kError)});
  const auto answer = TryCheck();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->decision, Decision::kDenied);
}

TEST_F(FallbackTest, ShadowRule_HasNoSayInAnOutage) {
  Rule shadow = WithPolicy("shadow", OnStoreFailure::kError);
  shadow.shadow = true;
  SetRules({WithPolicy("r", OnStoreFailure::kAllow), shadow});
  EXPECT_EQ(Check().decision, Decision::kAllowed);
}

TEST_F(FallbackTest, StoreBack_DecidesAgain) {
  SetRules({WithPolicy("r", OnStoreFailure::kLocal)});
  EXPECT_EQ(Check().source, Source::kFallback);
  store_.failing.reset();
  EXPECT_EQ(Check().source, Source::kStore);
}

}  // namespace
}  // namespace sluice::test
