#include "match/rule_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/match/rule_sets.h"

namespace sluice {
namespace {

using namespace sluice::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using std::string_literals::operator""s;
using Outcome = RuleMatch::Outcome;

TEST(RuleIndex, Pattern_MatchesItsValues) {
  const struct {
    Pattern pattern;
    std::vector<Attribute> attributes;
    bool holds;
  } kRows[] = {
      {Exact("x"), {{"a", "x"}}, true},
      {Exact("x"), {{"a", "xy"}}, false},
      {Exact("x"), {{"b", "x"}}, false},
      {Exact("x"), {}, false},
      {Exact(""), {{"a", ""}}, true},
      {Exact("x"), {{"a", "y"}, {"a", "x"}}, true},
      {Exact("x"), {{"a", "x"}, {"a", "y"}}, false},
      {AnyOf({Exact("x"), Exact("y")}), {{"a", "y"}}, true},
      {AnyOf({Exact("x"), Prefix("y")}), {{"a", "yz"}}, true},
      {AnyOf({Exact("x"), Exists()}), {{"a", "q"}}, true},
      {AnyOf({Exact("x"), Not(Exact("y"))}), {}, true},
      {AnyOf({AnyOf({Exact("x")}), Regex("y+")}), {{"a", "yyy"}}, true},
      {AnyOf({}), {{"a", "x"}}, false},
      {Prefix("/api/"), {{"a", "/api/"}}, true},
      {Prefix("/api/"), {{"a", "/api"}}, false},
      {Prefix("/api/"), {{"a", "/apj/"}}, false},
      {Prefix(""), {{"a", ""}}, true},
      {Regex("[a-z]+"), {{"a", "abc"}}, true},
      {Regex("[a-z]+"), {{"a", "abc1"}}, false},
      {Regex("b"), {{"a", "abc"}}, false},
      {Regex("x|y"), {{"a", "y"}}, true},
      {Regex("a.*"), {{"a", "a\nb"}}, true},
      {Cidr("10.0.0.0/8"), {{"a", "10.9.9.9"}}, true},
      {Cidr("10.0.0.0/8"), {{"a", "::ffff:10.9.9.9"}}, true},
      {Cidr("10.0.0.0/8"), {{"a", "11.0.0.0"}}, false},
      {Cidr("10.0.0.0/8"), {{"a", "nowhere"}}, false},
      {Not(Cidr("10.0.0.0/8")), {{"a", "nowhere"}}, true},
      {Cidr("2001:db8::/32"), {{"a", "2001:DB8:0:0::7%eth0"}}, true},
      {Cidr("::/0"), {{"a", "10.9.9.9"}}, false},
      {AnyOf({Cidr("10.0.0.0/8"), Exact("2001:db8::1")}), {{"a", "2001:DB8::0:1"}}, true},
      {AnyOf({Cidr("10.0.0.0/8"), Exact("2001:DB8::0:1")}), {{"a", "2001:db8::1"}}, true},
      {Exists(), {{"a", ""}}, true},
      {Exists(), {{"b", ""}}, false},
      {Not(Exists()), {{"b", ""}}, true},
      {Not(Exact("x")), {{"a", "y"}}, true},
      {Not(Exact("x")), {{"a", "x"}}, false},
      {Not(Exact("x")), {}, true},
      {Not(Not(Exact("x"))), {{"a", "x"}}, true},
  };
  for (std::size_t row = 0; row < std::size(kRows); ++row) {
    const auto index = Index(MakeDomain({MakeRule("r", {{"a", kRows[row].pattern}})}));
    EXPECT_EQ(Find(*index, kRows[row].attributes).count == 1, kRows[row].holds) << "row " << row;
  }
}

TEST(RuleIndex, Matches_AreInFileOrder) {
  const auto index = Index(MakeDomain({
      MakeRule("always", {}),
      MakeRule("regex", {{"a", Regex("x.*")}}),
      MakeRule("exact", {{"a", Exact("xyz")}}),
      MakeRule("other", {{"a", Exact("q")}}),
      MakeRule("prefix", {{"a", Prefix("x")}}),
      MakeRule("longer", {{"a", Prefix("xy")}}),
      MakeRule("not", {{"a", Not(Exact("q"))}}),
      MakeRule("twice", {{"a", AnyOf({Exact("xyz"), Prefix("x")})}}),
      MakeRule("both", {{"a", Exact("xyz")}, {"b", Exact("1")}}),
  }));
  EXPECT_THAT(Names(Find(*index, {{"a", "xyz"}})),
              ElementsAre("always", "regex", "exact", "prefix", "longer", "not", "twice"));
  EXPECT_THAT(Names(Find(*index, {{"b", "1"}, {"a", "q"}})), ElementsAre("always", "other"));
}

TEST(RuleIndex, Domain_DecidesUnmatchedRequests) {
  Domain silent = MakeDomain({});
  Domain strict = MakeDomain({});
  strict.name = "strict";
  strict.unmatched = Unmatched::kAllow;
  const auto index = *RuleIndex::Build({silent, strict}, {.unmatched = Unmatched::kDeny});
  MatchResult result;
  const struct {
    std::string domain;
    bool known;
    Unmatched unmatched;
  } kRows[] = {{"shop", true, Unmatched::kDeny},
               {"strict", true, Unmatched::kAllow},
               {"absent", false, Unmatched::kDeny}};
  for (const auto& row : kRows) {
    index->Match(row.domain, {}, result);
    EXPECT_EQ(result.domain_known, row.known) << row.domain;
    EXPECT_EQ(result.unmatched, row.unmatched) << row.domain;
    EXPECT_EQ(result.count, 0u);
  }
}

TEST(RuleIndex, MissingAttribute_SkipsOrDenies) {
  Rule deny = MakeRule("deny", {}, {Key("user")});
  deny.missing = OnMissing::kDeny;
  const auto index = Index(MakeDomain({MakeRule("skip", {}, {Key("user")}), deny}));
  const MatchResult absent = Find(*index, {});
  ASSERT_EQ(absent.count, 2u);
  EXPECT_EQ(absent.rules[0].outcome, Outcome::kSkipped);
  EXPECT_EQ(absent.rules[1].outcome, Outcome::kMissing);
  for (const RuleMatch& match : absent.matches()) {
    EXPECT_TRUE(match.limits.empty());
    EXPECT_EQ(match.key_prefix, "");
  }
  const MatchResult present = Find(*index, {{"user", ""}});
  EXPECT_EQ(present.rules[0].outcome, Outcome::kCount);
  EXPECT_EQ(present.rules[1].outcome, Outcome::kCount);
}

// When a result is reused, the index and the rules of the last request may already be freed.
TEST(RuleIndex, ReusedResult_KeepsNothingOfTheLastRequest) {
  const auto index = Index(MakeDomain({MakeRule("r", {}, {Key("user")})}));
  MatchResult result = Find(*index, {{"user", "42"}});
  EXPECT_FALSE(result.rules[0].limits.empty());
  index->Match("shop", {}, result);
  ASSERT_EQ(result.count, 1u);
  EXPECT_EQ(result.rules[0].outcome, Outcome::kSkipped);
  EXPECT_TRUE(result.rules[0].limits.empty());
  EXPECT_EQ(result.rules[0].key_prefix, "");
}

TEST(RuleIndex, EqualTexts_OnlyTheAddressBecomesCanonical) {
  const auto index = Index(MakeDomain({MakeRule("address", {{"client_ip", Exact("0:0::1")}}),
                                       MakeRule("text", {{"other", Exact("0:0::1")}})}));
  EXPECT_THAT(Names(Find(*index, {{"client_ip", "::1"}})), ElementsAre("address"));
  EXPECT_THAT(Names(Find(*index, {{"other", "0:0::1"}})), ElementsAre("text"));
  EXPECT_EQ(Find(*index, {{"other", "::1"}}).count, 0u);
}

TEST(RuleIndex, BlockedAndUnlimited_NeedNoKey) {
  Rule blocked = MakeRule("blocked", {}, {Key("user")});
  blocked.limits = {Limits::Effect::kBlocked, {}};
  Rule unlimited = MakeRule("unlimited", {}, {Key("user")});
  unlimited.limits = {Limits::Effect::kUnlimited, {}};
  const auto index = Index(MakeDomain({blocked, unlimited}));
  const MatchResult result = Find(*index, {});
  ASSERT_EQ(result.count, 2u);
  EXPECT_EQ(result.rules[0].outcome, Outcome::kBlocked);
  EXPECT_EQ(result.rules[1].outcome, Outcome::kUnlimited);
}

TEST(RuleIndex, Override_FirstThatMatchesReplacesTheLimits) {
  Rule rule = MakeRule("r", {}, {Key("user")});
  Limits hundred = TenPerSecond();
  std::get<FixedWindow>(hundred.limits[0].limit).limit = 100;
  rule.overrides = {{{{"plan", Exact("gold")}}, hundred, false},
                    {{{"plan", Prefix("g")}}, TenPerSecond(), true},
                    {{{"plan", Exact("free")}}, {Limits::Effect::kUnlimited, {}}, false},
                    {{{"plan", Exact("bad")}}, {Limits::Effect::kBlocked, {}}, false}};
  const auto index = Index(MakeDomain({rule}));
  const struct {
    std::string plan;
    int override_index;
    Outcome outcome;
    std::string key_prefix;
    std::int64_t limit;  // 0: none
  } kRows[] = {
      {"none", -1, Outcome::kCount, "sluice:{shop/r/user=u}:", 10},
      {"gold", 0, Outcome::kCount, "sluice:{shop/r/user=u}:", 100},
      {"green", 1, Outcome::kCount, "sluice:{shop/r~9c200b2bbe7f3d31ce7f2b4529714cf8/user=u}:", 10},
      {"free", 2, Outcome::kCount, "", 0},
      {"bad", 3, Outcome::kBlocked, "", 0},
  };
  for (const auto& row : kRows) {
    const MatchResult result = Find(*index, {{"user", "u"}, {"plan", row.plan}});
    ASSERT_EQ(result.count, 1u);
    const RuleMatch& match = result.rules[0];
    EXPECT_EQ(match.override_index, row.override_index) << row.plan;
    EXPECT_EQ(match.outcome, row.outcome) << row.plan;
    EXPECT_EQ(match.key_prefix, row.key_prefix) << row.plan;
    ASSERT_EQ(match.limits.size(), row.limit > 0 ? 1u : 0u) << row.plan;
    if (row.limit > 0) {
      EXPECT_EQ(std::get<FixedWindow>(match.limits[0].limit).limit, row.limit) << row.plan;
    }
  }
}

// The key prefix for a request of plan gold in region eu. The rule has the overrides `others`, then
// an override with the conditions `match` and its own counter.
std::string OwnKey(std::vector<Override> others, std::vector<Condition> match) {
  Rule rule = MakeRule("r", {});
  rule.overrides = std::move(others);
  rule.overrides.push_back({std::move(match), TenPerSecond(), true});
  const auto index = Index(MakeDomain({rule}));
  return Find(*index, {{"plan", "gold"}, {"region", "eu"}}).rules[0].key_prefix;
}

TEST(RuleIndex, OwnCounter_IsNamedByWhatTheOverrideMatches) {
  const std::string gold = OwnKey({}, {{"plan", Exact("gold")}});
  const Override inserted{{{"plan", Exact("trial")}}, TenPerSecond(), true};
  EXPECT_EQ(OwnKey({inserted}, {{"plan", Exact("gold")}}), gold);

  const std::string both =
      OwnKey({}, {{"plan", AnyOf({Exact("gold"), Exact("x")})}, {"region", Exact("eu")}});
  EXPECT_EQ(OwnKey({}, {{"region", Exact("eu")}, {"plan", AnyOf({Exact("x"), Exact("gold")})}}),
            both);
  EXPECT_EQ(OwnKey({}, {{"plan", AnyOf({Exact("x"), Exact("gold"), Exact("x")})},
                        {"region", Exact("eu")}}),
            both);
  const std::set<std::string> keys = {gold,
                                      both,
                                      OwnKey({}, {{"plan", Prefix("gold")}}),
                                      OwnKey({}, {{"plan", Regex("gold")}}),
                                      OwnKey({}, {{"plan", Not(Exact("x"))}}),
                                      OwnKey({}, {{"plan", Exists()}})};
  EXPECT_EQ(keys.size(), 6u) << "other conditions have other counters";
}

// The tag of a limit depends neither on the order of the limits nor on the rule's other limits.
TEST(RuleIndex, LimitsWithEqualWindows_AreDistinguishedByName) {
  using std::chrono::seconds;
  const RuleLimit small(FixedWindow{.limit = 1, .window = seconds(1)});
  const RuleLimit large(FixedWindow{.limit = 2, .window = seconds(1)}, "large");
  const RuleLimit bucket(TokenBucket{.rate = 4, .period = seconds(1), .burst = 4});
  const struct {
    std::vector<RuleLimit> limits;
    std::vector<std::string> tags;
  } kRows[] = {
      {{small, bucket, large}, {"fixed_window:1s", "token_bucket:1s", "fixed_window:1s.large"}},
      {{large, small}, {"fixed_window:1s.large", "fixed_window:1s"}},
      {{large}, {"fixed_window:1s.large"}},
      {{small}, {"fixed_window:1s"}},
  };
  for (const auto& row : kRows) {
    Rule rule = MakeRule("r", {});
    rule.limits.limits = row.limits;
    const auto index = Index(MakeDomain({rule}));
    const MatchResult result = Find(*index, {});
    std::vector<std::string> tags;
    for (const IndexedLimit& limit : result.rules[0].limits) tags.push_back(limit.tag);
    EXPECT_EQ(tags, row.tags);
  }
}

TEST(RuleIndex, BadRules_AreRefused) {
  const FixedWindow window{.limit = 1, .window = std::chrono::seconds(1)};
  const FixedWindow larger{.limit = 2, .window = std::chrono::seconds(1)};
  Rule alike = MakeRule("alike", {});
  alike.limits.limits = {window, larger};
  Rule alike_in_override = MakeRule("r", {});
  alike_in_override.overrides = {
      {{{"a", Exists()}}, {Limits::Effect::kCount, {{window, "x"}, {larger, "x"}}}, false}};
  const struct {
    RuleSet rules;
    std::string reason;
  } kRows[] = {
      {{MakeDomain({MakeRule("r", {{"a", Regex("(")}})})}, "not a regular expression"},
      {{MakeDomain({MakeRule("r", {{"a", Not(Cidr("x"))}})})}, "network"},
      {{MakeDomain({MakeRule("r", {}), MakeRule("r", {})})}, "\"r\" occurs twice"},
      {{MakeDomain({}), MakeDomain({})}, "\"shop\" occurs twice"},
      {{MakeDomain({MakeRule("r", {{"a", Make(Pattern::Kind::kNot, "")}})})}, "exactly one"},
      {{Domain{}}, "no name"},
      {{MakeDomain({alike})}, "rule \"alike\" has two limits fixed_window:1s"},
      {{MakeDomain({alike_in_override})}, "two limits fixed_window:1s.x"},
  };
  for (const auto& row : kRows) {
    const auto index = RuleIndex::Build(row.rules, {});
    ASSERT_FALSE(index) << row.reason;
    EXPECT_THAT(index.error().message, HasSubstr(row.reason));
  }
}

// A MatchResult keeps nothing of the last request, even if other rules match.
TEST(RuleIndex, ReusedResult_HasOnlyTheNewMatches) {
  Rule blocked = MakeRule("blocked", {{"a", Exact("x")}});
  blocked.limits = {Limits::Effect::kBlocked, {}};
  const auto index = Index(MakeDomain({blocked, MakeRule("r", {}, {Key("user")})}));
  MatchResult result;
  index->Match("shop", std::vector<Attribute>{{"a", "x"}, {"user", "1"}}, result);
  EXPECT_THAT(Names(result), ElementsAre("blocked", "r"));
  index->Match("shop", std::vector<Attribute>{{"user", "2"}}, result);
  ASSERT_THAT(Names(result), ElementsAre("r"));
  EXPECT_EQ(result.rules[0].outcome, Outcome::kCount);
  EXPECT_EQ(result.rules[0].key_prefix, "sluice:{shop/r/user=2}:");
  EXPECT_EQ(result.rules[0].limits.size(), 1u);
  index->Match("absent", {}, result);
  EXPECT_THAT(Names(result), IsEmpty());
}

}  // namespace
}  // namespace sluice
