// Tests the limiter's metrics, and that callers cannot create new series.
#include <algorithm>
#include <string>

#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

Rule Without(Limits::Effect effect, std::string name) {
  Rule rule;
  rule.name = std::move(name);
  rule.limits.effect = effect;
  return rule;
}

class MetricsTest : public LimiterTest {
 protected:
  double Checks(const std::string& domain, const std::string& rule, const std::string& decision,
                const std::string& source) const {
    return Value("sluice_checks_total{decision=\"" + decision + "\",domain=\"" + domain +
                 "\",rule=\"" + rule + "\",source=\"" + source + "\"}");
  }

  std::ptrdiff_t Series() const {
    const std::string page = metrics_.Render();
    return std::count(page.begin(), page.end(), '\n');
  }
};

TEST_F(MetricsTest, StoreDecides_ChecksAreCountedForEachRule) {
  SetRules(
      {RuleOf("one", {PerMinute(1), {PerMinute(50), "large"}}), RuleOf("many", {PerMinute(100)})});
  for (int i = 0; i < 3; ++i) Check();
  EXPECT_EQ(Checks("shop", "one", "allowed", "store"), 1);
  EXPECT_EQ(Checks("shop", "one", "denied", "store"), 2);
  EXPECT_EQ(Checks("shop", "many", "allowed", "store"), 3);
  EXPECT_EQ(Value("sluice_store_duration_seconds_count"), 3);
}

TEST_F(MetricsTest, StoreFails_SourceIsFallback) {
  SetRules({RuleOf("r", {PerMinute(1)})});
  store_.failing = StoreFailure::kTimeout;
  for (int i = 0; i < 3; ++i) Check();
  EXPECT_EQ(Checks("shop", "r", "allowed", "fallback"), 1);
  EXPECT_EQ(Checks("shop", "r", "denied", "fallback"), 2);
  EXPECT_EQ(Value("sluice_store_failures_total{kind=\"timeout\"}"), 3);
  EXPECT_EQ(Value("sluice_store_failures_total{kind=\"unreachable\"}"), 0);
  EXPECT_EQ(Value("sluice_store_duration_seconds_count"), 3) << "failed calls are timed, too";
}

TEST_F(MetricsTest, RuleWithoutLimits_SourceIsRule) {
  Rule blocked = Without(Limits::Effect::kBlocked, "blocked");
  blocked.match = {{"user", {Pattern::Kind::kExact, "mallory", {}}}};
  SetRules({blocked, Without(Limits::Effect::kUnlimited, "open")});
  Check({{"user", "mallory"}});
  Check();
  EXPECT_EQ(Checks("shop", "blocked", "denied", "rule"), 1);
  EXPECT_EQ(Checks("shop", "open", "allowed", "rule"), 1);
}

TEST_F(MetricsTest, OverrideLiftsTheLimits_SourceIsRule) {
  Rule rule = RuleOf("lifted", {PerMinute(1)});
  Override partner;
  partner.limits.effect = Limits::Effect::kUnlimited;
  rule.overrides = {partner};
  SetRules({rule});
  Check();
  EXPECT_EQ(Checks("shop", "lifted", "allowed", "rule"), 1);
  EXPECT_EQ(Checks("shop", "", "allowed", "no_rule"), -1);
}

TEST_F(MetricsTest, ShadowRules_HaveSeparateDecisions) {
  Rule tight = RuleOf("tight", {PerMinute(1)});
  Rule closed = Without(Limits::Effect::kBlocked, "closed");
  tight.shadow = closed.shadow = true;
  SetRules({tight, closed, RuleOf("real", {PerMinute(10)})});
  for (int i = 0; i < 3; ++i) Check();
  EXPECT_EQ(Checks("shop", "tight", "shadow_allowed", "store"), 1);
  EXPECT_EQ(Checks("shop", "tight", "shadow_denied", "store"), 2);
  EXPECT_EQ(Checks("shop", "closed", "shadow_denied", "rule"), 3);
  EXPECT_EQ(Checks("shop", "real", "allowed", "store"), 3);
}

TEST_F(MetricsTest, AttributeMissing_RuleIsSkipped) {
  Rule rule = RuleOf("per-user", {PerMinute(1)});
  rule.per = {{"user", {}, {}}};
  SetRules({rule, RuleOf("all", {PerMinute(10)})});
  for (int i = 0; i < 2; ++i) Check();
  Check({{"user", "42"}});
  EXPECT_EQ(Value("sluice_rules_skipped_total{domain=\"shop\",rule=\"per-user\"}"), 2);
  EXPECT_EQ(Checks("shop", "per-user", "allowed", "store"), 1);
}

TEST_F(MetricsTest, NoRuleDecides_DomainIsNamedIfItHasRules) {
  Rule rule = RuleOf("per-user", {PerMinute(1)});
  rule.per = {{"user", {}, {}}};
  SetRules({rule});
  Check();
  call_.request.Clear();
  call_.request.domain = "elsewhere";
  call_.Start();
  EXPECT_EQ(Checks("shop", "", "allowed", "no_rule"), 1);
  EXPECT_EQ(Checks("", "", "allowed", "no_rule"), 1);
}

TEST_F(MetricsTest, RefusedRequests_AreCountedByCode) {
  Rule rule = RuleOf("strict", {PerMinute(1)});
  rule.on_store_failure = OnStoreFailure::kError;
  SetRules({rule});
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(TryCheck({}, kMaxCost + std::uint64_t{1}));
  store_.failing = StoreFailure::kUnreachable;
  EXPECT_FALSE(TryCheck());
  EXPECT_EQ(Value("sluice_refused_total{code=\"invalid_argument\"}"), 2);
  EXPECT_EQ(Value("sluice_refused_total{code=\"unavailable\"}"), 1);
  EXPECT_EQ(Value("sluice_refused_total{code=\"other\"}"), 0);
  EXPECT_EQ(Checks("shop", "strict", "allowed", "fallback"), -1);
}

TEST_F(MetricsTest, RulesAreReloaded_CountsContinue) {
  const auto rules = {RuleOf("r", {PerMinute(1)})};
  for (int i = 0; i < 3; ++i) {
    SetRules(rules);
    Check();
  }
  EXPECT_EQ(Checks("shop", "r", "allowed", "store"), 1);
  EXPECT_EQ(Checks("shop", "r", "denied", "store"), 2);
}

TEST_F(MetricsTest, HostileCaller_AddsNoSeries) {
  Rule rule = RuleOf("per-user", {PerMinute(1)});
  rule.per = {{"user", {}, {}}};
  SetRules({rule});
  const auto attack = [this](const std::string& word) {
    for (const std::string& domain : {std::string("shop"), word}) {
      for (const std::string& name : {std::string("user"), word}) {
        const std::vector<Attribute> attributes{{name, word}};
        call_.request.Clear();
        call_.request.domain = domain;
        call_.request.attributes = attributes;
        for (int i = 0; i < 2; ++i) call_.Start();
        call_.request.cost = -1;  // refused
        call_.Start();
      }
    }
  };
  attack("first");
  const std::ptrdiff_t before = Series();
  for (int i = 0; i < 10'000; ++i) attack("evil\"\n" + std::to_string(i));
  EXPECT_EQ(Series(), before);
  EXPECT_EQ(Checks("shop", "per-user", "allowed", "store"), 10'001);
  EXPECT_EQ(Checks("", "", "allowed", "no_rule"), 4 * 10'001);
  EXPECT_EQ(Value("sluice_refused_total{code=\"invalid_argument\"}"), 4 * 10'001);
}

}  // namespace
}  // namespace sluice::test
