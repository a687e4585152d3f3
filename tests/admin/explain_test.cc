// The explanation of a request, and the effect of a reset on its counters.
#include "envoy/rules/compiler.h"
#include "envoy/rules/rules_loader.h"
#include "tests/admin/operators.h"
#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr FixedWindow kTen{.limit = 10, .window = seconds(60)};

Pattern Exact(std::string text) { return {Pattern::Kind::kExact, std::move(text), {}}; }

class ExplainTest : public LimiterTest {
 protected:
  ExplainTest() {
    Rule user = RuleOf("per-user", {kTen});
    user.per = {{"user"}};
    user.overrides = {{.match = {{"plan", Exact("gold")}}, .limits = {}},
                      {.match = {{"plan", Exact("staff")}}, .limits = {}}};
    user.overrides[0].limits.limits = {FixedWindow{.limit = 50, .window = seconds(60)}};
    user.overrides[1].limits.effect = Limits::Effect::kUnlimited;
    Rule address = RuleOf("per-address", {kTen});
    address.per = {{.attribute = "client_ip", .ipv4_prefix = {}, .ipv6_prefix = 64}};
    Rule phone = RuleOf("per-phone", {kTen});
    phone.match = {{"endpoint", Exact("/sms")}};
    phone.per = {{"phone"}};
    phone.missing = OnMissing::kDeny;
    Rule trial = RuleOf("trial", {FixedWindow{.limit = 1, .window = seconds(60)}});
    trial.per = {{"user"}};
    trial.shadow = true;
    Rule office = RuleOf("office", {});
    office.match = {{"office", Exact("1")}};
    office.limits.effect = Limits::Effect::kUnlimited;
    Rule thief = RuleOf("thief", {});
    thief.match = {{"user", Exact("mallory")}};
    thief.limits.effect = Limits::Effect::kBlocked;
    SetRules({user, address, phone, trial, office, thief});
  }

  static CheckRequest RequestOf(const Attributes& attributes) {
    return {.domain = "shop", .attributes = attributes};
  }

  // A line for each rule: "rule effect (reason)", followed by "remaining/limit" or "unknown" for
  // each counter. If a counter counts an amount, the amount's name comes before these numbers.
  std::vector<std::string> Explained(const Attributes& attributes) {
    std::vector<std::string> lines;
    const auto explained =
        Explain(limiter_, RequestOf(attributes), [&](const Explanation& explanation) {
          decision_ = explanation.answer.decision;
          for (const ExplainedRule& rule : explanation.rules) {
            std::string line = std::string(rule.rule) + " " + std::string(rule.effect);
            if (!rule.reason.empty()) line += " (" + rule.reason + ")";
            for (const auto& [key, status, counts, grants] : rule.counters) {
              if (!counts.empty()) line += " " + counts[0].name;
              line += status.state_known ? " " + std::to_string(status.verdict.remaining) + "/" +
                                               std::to_string(status.verdict.limit)
                                         : " unknown";
              keys_.push_back(key);
            }
            lines.push_back(line);
          }
        });
    EXPECT_TRUE(explained) << explained.error().message;
    return lines;
  }

  Decision decision_ = Decision::kAllowed;
  std::vector<std::string> keys_;
};

TEST_F(ExplainTest, EveryRuleThatMatches_IsShownInFileOrderWithItsReason) {
  using Lines = std::vector<std::string>;
  const struct {
    Attributes attributes;
    Decision decision;
    Lines lines;
  } rows[] = {
      {{{"user", "a"}, {"client_ip", "2001:db8::1"}},
       Decision::kAllowed,
       {"per-user enforced 10/10", "per-address enforced 10/10", "trial shadow 1/1"}},
      {{{"user", "a"}, {"plan", "gold"}},
       Decision::kAllowed,
       {"per-user enforced (overrides[0] applies: {plan: gold}) 50/50",
        "per-address skipped (attribute \"client_ip\" is missing)", "trial shadow 1/1"}},
      {{{"plan", "staff"}, {"client_ip", "nowhere"}},
       Decision::kAllowed,
       {"per-user unlimited (overrides[1] applies: {plan: staff}; other rules still apply)",
        "per-address skipped (attribute \"client_ip\" is not an IP address)",
        "trial skipped (attribute \"user\" is missing)"}},
      {{{"endpoint", "/sms"}, {"user", "a"}},
       Decision::kDenied,
       {"per-user enforced 10/10", "per-address skipped (attribute \"client_ip\" is missing)",
        "per-phone blocked (attribute \"phone\" is missing, and the rule says missing: deny)",
        "trial shadow 1/1"}},
      {{{"user", "mallory"}, {"office", "1"}},
       Decision::kDenied,
       {"per-user enforced 10/10", "per-address skipped (attribute \"client_ip\" is missing)",
        "trial shadow 1/1", "office unlimited", "thief blocked"}},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Explained(row.attributes), row.lines);
    EXPECT_EQ(decision_, row.decision);
  }
}

TEST_F(ExplainTest, LimitsOfAmounts_ShowWhatTheyCount) {
  RuleLimit tokens{kTen};
  tokens.counts = {{"tokens", 3}};
  Rule closed = RuleOf("closed", {});
  closed.match = {{"user", Exact("b")}};
  closed.limits.effect = Limits::Effect::kBlocked;
  SetRules({RuleOf("model", {kTen, tokens}), closed});
  CheckRequest charge = LimiterTest::RequestOf(Mode::kCharge);
  charge.amounts = {{"tokens", 4}};
  Ask(charge);
  const std::string line = "model enforced 9/10 tokens 0/10";
  EXPECT_EQ(Explained({{"user", "a"}}), std::vector{line});
  EXPECT_EQ(decision_, Decision::kDenied) << "the tokens count as 12 units, and the limit is 10";
  EXPECT_EQ(Explained({{"user", "b"}}), (std::vector<std::string>{line, "closed blocked"}))
      << "counters are shown even if a blocked rule decides";
}

TEST_F(ExplainTest, Counters_AreNotChanged) {
  Check({{"user", "a"}}, 1);
  Check({{"user", "a"}}, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Explained({{"user", "a"}})[0], "per-user enforced 6/10");
    EXPECT_EQ(Explained({{"user", "a"}, {"office", "1"}})[0], "per-user enforced 6/10")
        << "counters are shown even if a rule decides without the store";
  }
  EXPECT_EQ(keys_[0], "sluice:{shop/per-user/user=a}:fixed_window:1m");
  EXPECT_EQ(Check({{"user", "a"}}).limits[0].verdict.remaining, 5);
}

TEST_F(ExplainTest, StoreFails_ShowsTheStateOfTheFallback) {
  store_.failing = StoreFailure::kTimeout;
  EXPECT_EQ(Explained({{"user", "a"}})[0], "per-user enforced 10/10");
  EXPECT_EQ(Explained({{"user", "a"}, {"office", "1"}})[0], "per-user enforced unknown");
}

TEST_F(ExplainTest, BadRequest_IsRefused) {
  bool shown = false;
  const auto explained = Explain(limiter_, {}, [&](const Explanation&) { shown = true; });
  ASSERT_FALSE(explained);
  EXPECT_EQ(explained.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(shown);
}

TEST_F(ExplainTest, DescriptorOfEnvoy_IsExplainedAndResetByItsEntries) {
  RuleTexts texts;
  texts.files.push_back({"envoy.yaml", R"(
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: path, value: /a*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 5}}
)"});
  auto compiled = envoy::Compile(envoy::ParseRules(std::move(texts), false).trees);
  limiter_.SetRules(RuleIndex::Build(std::move(compiled.rules), {.guide = compiled.guide}).value());
  Check({{"rule", "user"}, {"descriptor", "user=7"}}, 4);
  const Attributes asked{{"descriptor", "user=7"}};
  EXPECT_EQ(Explained(asked), std::vector<std::string>{"user enforced 6/10"});
  EXPECT_EQ(keys_[0], "sluice:{shop/descriptor/user=7}:fixed_window:1m:epoch");
  EXPECT_EQ(ResetLimit(limiter_, RequestOf(asked), "").value(), keys_);
  EXPECT_EQ(Explained(asked), std::vector<std::string>{"user enforced 10/10"});
  EXPECT_EQ(Explained({{"descriptor", "path=/abc"}}),
            std::vector<std::string>{"path=/a* enforced 5/5"});
  EXPECT_EQ(Explained({{"descriptor", "path=/b"}}), std::vector<std::string>{});
}

class ResetLimitTest : public ExplainTest {
 protected:
  Result<std::vector<std::string>> Reset(std::string_view rule = "") {
    return ResetLimit(limiter_, RequestOf(kUser), rule);
  }
  std::int64_t Remaining() { return Check(kUser, 0).limits[0].verdict.remaining; }

  const Attributes kUser{{"user", "a"}};
};

TEST_F(ResetLimitTest, AllRules_ResetsTheirCounters_KeepsThoseOfOtherUsers) {
  Check(kUser, 4);
  Check({{"user", "b"}}, 4);
  const auto keys = Reset();
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(*keys, (std::vector<std::string>{"sluice:{shop/per-user/user=a}:fixed_window:1m",
                                             "sluice:{shop/trial/user=a}:fixed_window:1m"}));
  EXPECT_EQ(Remaining(), 10);
  EXPECT_EQ(Check({{"user", "b"}}, 0).limits[0].verdict.remaining, 6);
}

TEST_F(ResetLimitTest, OneRule_ResetsItsCounters_KeepsThoseOfOtherRules) {
  Check(kUser);
  EXPECT_EQ(Reset("trial")->size(), 1u);
  EXPECT_EQ(Remaining(), 9);
  EXPECT_EQ(Reset("per-user")->size(), 1u);
  EXPECT_EQ(Remaining(), 10);
}

TEST_F(ResetLimitTest, RuleWithoutCountersForTheRequest_IsNotFound) {
  for (const auto& [rule, said] :
       {std::pair("office", "; matching rules: per-user, per-address"),
        {"nonsense", "rule: no rule \"nonsense\" of domain \"shop\" matches these attributes"},
        {"per-address", "attribute \"client_ip\" is missing"}}) {
    const auto keys = Reset(rule);
    ASSERT_FALSE(keys) << rule;
    EXPECT_EQ(keys.error().code, ErrorCode::kNotFound);
    EXPECT_NE(keys.error().message.find(said), std::string::npos) << keys.error().message;
  }
}

TEST_F(ResetLimitTest, StoreFails_IsUnavailable_LocalCopiesAreReset) {
  store_.failing = StoreFailure::kUnreachable;
  Check(kUser, 4);
  EXPECT_EQ(Remaining(), 6);
  const auto keys = Reset();
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Remaining(), 10);
}

}  // namespace
}  // namespace sluice::test
