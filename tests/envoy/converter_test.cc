#include "envoy/rules/converter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "envoy/rules/rules_loader.h"
#include "match/rule_index.h"

namespace sluice::envoy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

ConvertedRules Convert(std::string text) {
  RuleTexts texts;
  texts.files.push_back({"f.yaml", std::move(text)});
  const LoadedTrees loaded = ParseRules(std::move(texts), false);
  EXPECT_TRUE(loaded.ok());
  return ConvertToYaml(loaded.trees.at(0));
}

std::string Converted(std::string text) {
  ConvertedRules converted = Convert(std::move(text));
  for (const Diagnostic& error : converted.errors) ADD_FAILURE() << error.ToString();
  return converted.text;
}

std::vector<std::string> MistakesOf(std::string text) {
  std::vector<std::string> mistakes;
  for (const Diagnostic& error : Convert(std::move(text)).errors) {
    mistakes.push_back(error.ToString());
  }
  return mistakes;
}

LoadedRules Native(const std::string& text) {
  const RuleFile file{"n.yaml", text};
  return sluice::ParseRules({.files = {file}});
}

std::shared_ptr<const RuleIndex> IndexOf(const std::string& text) {
  LoadedRules loaded = Native(text);
  for (const Diagnostic& error : loaded.errors) ADD_FAILURE() << error.ToString() << "\n" << text;
  return RuleIndex::Build(std::move(loaded.rules), {}).value();
}

// The rules that count or decide the request.
std::vector<std::string> RulesOf(const RuleIndex& index, const std::vector<Attribute>& attributes) {
  MatchResult result;
  index.Match("shop", attributes, result);
  std::vector<std::string> rules;
  for (const RuleMatch& match : result.matches()) {
    if (match.outcome != RuleMatch::Outcome::kSkipped) rules.push_back(match.rule->rule.name);
  }
  return rules;
}

constexpr const char* kRules = R"(
domain: shop
descriptors:
  - {key: path, value: /pay, rate_limit: {unit: week, requests_per_unit: 3}}
  - {key: path, value: /a.*/*, share_threshold: true, rate_limit: {unit: month, requests_per_unit: 4}}
  - key: path
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 6, on_store_failure: error}}
      - {key: user, value: root, rate_limit: {unlimited: true}}
      - {key: user, value: eve, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: free, value: trial, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: shut, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: own, rate_limit: {limits: [{algorithm: token_bucket, rate: 10/s}], name: x, replaces: [{name: y}]}}
)";

TEST(ConvertToYaml, EnvoyRules_BecomeAValidRuleFile) {
  EXPECT_EQ(
      Converted("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: week, "
                "requests_per_unit: 3}}"),
      R"(# Each descriptor is a check of its own, with an attribute for each entry and no others.
domain: d
unmatched: allow
rules:
  # f.yaml:3
  # Up to twice the limit can pass around a window boundary. To prevent this:
  #   {algorithm: sliding_window, limit: 3, window: 7d}
  - name: k
    per: [k]
    limits:
      - {algorithm: fixed_window, limit: 3, window: 7d, align: epoch}
    missing: skip
)");
  EXPECT_TRUE(Native(Converted("domain: d")).ok());
  EXPECT_TRUE(Native(Converted("domain: 'a: b'\ndescriptors: [{key: k}]")).ok());
}

TEST(ConvertToYaml, ConvertedRules_MatchAsTheTreeDoes) {
  const std::string text = Converted(kRules);
  const auto index = IndexOf(text);
  struct Row {
    std::vector<Attribute> attributes;
    std::string rule;
    std::string key;
  };
  const Row rows[] = {
      {{{"path", "/pay"}}, "path-_pay", "sluice:{shop/path-_pay/}:fixed_window:7d:epoch"},
      {{{"path", "/a.x/y"}}, "path-_a____", "sluice:{shop/path-_a____/}:fixed_window:30d:epoch"},
      {{{"path", "/x"}}, "path", "sluice:{shop/path/path=%2Fx}:fixed_window:1m:epoch"},
      {{{"path", "/x"}, {"user", "u"}},
       "path.user",
       "sluice:{shop/path.user/path=%2Fx/user=u}:fixed_window:1h:epoch"},
      {{{"path", "/x"}, {"user", "root"}}, "path.user-root", ""},
      {{{"path", "/x"}, {"user", "eve"}}, "path.user-eve", ""},
      {{{"own", "1"}}, "own", "sluice:{shop/own/own=1}:token_bucket:1s"},
      {{{"path", "/x"}, {"user", "u"}, {"own", "1"}}, "", ""},
      {{{"path", "/pay"}, {"user", "u"}}, "", ""},
      {{{"user", "u"}}, "", ""},
      {{{"user", "root"}}, "", ""},
      {{{"user", "eve"}}, "", ""},
      {{{"free", "x"}}, "free", ""},
      {{{"free", "trial"}}, "free-trial", "sluice:{shop/free-trial/}:fixed_window:1d:epoch"},
      {{{"shut", "x"}}, "shut", ""},
  };
  for (const Row& row : rows) {
    MatchResult result;
    index->Match("shop", row.attributes, result);
    std::string key;
    for (const RuleMatch& match : result.matches()) {
      if (match.outcome == RuleMatch::Outcome::kSkipped) continue;
      if (!match.limits.empty()) key = match.key_prefix + match.limits[0].tag;
    }
    EXPECT_EQ(RulesOf(*index, row.attributes),
              row.rule.empty() ? std::vector<std::string>{} : std::vector{row.rule});
    EXPECT_EQ(key, row.key);
  }
  EXPECT_NE(text.find("`replaces` has no counterpart"), text.npos);
  EXPECT_NE(text.find("on_store_failure: error"), text.npos);
  EXPECT_NE(text.find("mode: shadow"), text.npos);
}

TEST(ConvertToYaml, KeyOnSeveralLevels_CountsOnlyDescriptorsThatEndThere) {
  const auto index = IndexOf(Converted(R"(
domain: shop
descriptors:
  - key: database
    descriptors:
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
)"));
  const auto rules = [&](const std::vector<Attribute>& attributes) {
    return RulesOf(*index, attributes);
  };
  EXPECT_THAT(rules({{"user", "u"}}), ElementsAre("user"));
  EXPECT_THAT(rules({{"database", "d"}, {"user", "u"}}), ElementsAre("database.user"));
  EXPECT_THAT(rules({{"database", "d"}}), IsEmpty());
}

TEST(ConvertToYaml, ValueOfSeveralSiblings_BelongsToTheOneThatEnvoyPrefers) {
  const std::string text = Converted(R"(
domain: shop
descriptors:
  - {key: path, value: /f*, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: path, value: /foo*, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: path, value: '*o*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: path, value: '*a*', rate_limit: {unlimited: true}}
  - {key: path, value: /foobar, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: path, value: /bar, descriptors: [{key: user}]}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 4}}
)");
  const auto index = IndexOf(text);
  const auto rules = [&](std::string_view path) { return RulesOf(*index, {{"path", path}}); };
  EXPECT_THAT(rules("/foobar"), ElementsAre("path-_foobar"));
  EXPECT_THAT(rules("/foobars"), ElementsAre("path-_f_"));
  EXPECT_THAT(rules("/fa"), ElementsAre("path-_f_"));
  EXPECT_THAT(rules("/o"), ElementsAre("path-_o_"));
  EXPECT_THAT(rules("/a"), ElementsAre("path-_a_"));
  EXPECT_THAT(rules("/bar"), IsEmpty()) << "Envoy tries no other sibling";
  EXPECT_THAT(rules("/x"), ElementsAre("path"));
  EXPECT_THAT(RulesOf(*index, {}), IsEmpty());
  EXPECT_THAT(text, HasSubstr("{path: {not: [{not: {regex: '\\/f.*'}}, /foobar]}"))
      << "/bar does not match /f*";
}

TEST(ConvertToYaml, LimitThatLetsCallersWait_GetsANote) {
  const auto with = [](std::string_view limit) {
    return Converted("domain: d\ndescriptors:\n- {key: k, rate_limit: {limits: [" +
                     std::string(limit) + "]}}");
  };
  EXPECT_THAT(with("{algorithm: leaky_bucket, rate: 1/m, queue: 5}"),
              HasSubstr("callers set max_wait to 0s.\n"));
  EXPECT_THAT(with("{algorithm: leaky_bucket, rate: 1/m, queue: 0}"), Not(HasSubstr("max_wait")));
  EXPECT_THAT(with("{algorithm: leaky_bucket, rate: 1/m, queue: 5, delay: false}"),
              Not(HasSubstr("max_wait")));
}

TEST(ConvertToYaml, DescriptorsThatNoRuleCanExpress_AreReportedWithTheirPlace) {
  const std::string limit = "rate_limit: {unit: day, requests_per_unit: 1}";
  EXPECT_THAT(
      MistakesOf("domain: d\ndescriptors:\n- {key: b, " + limit +
                 "}\n- {key: " + std::string(256, 'k') + ", " + limit + "}"),
      ElementsAre("f.yaml:4:3: descriptors: found a key of 256 bytes; allowed is at most 255 "
                  "bytes, because the key becomes the name of an attribute"));
  for (const std::string value : {"", ", value: x"}) {
    EXPECT_THAT(MistakesOf("domain: d\ndescriptors:\n- key: a\n  descriptors: [{key: a" + value +
                           ", " + limit + "}]"),
                ElementsAre("f.yaml:4:17: descriptors: found the key \"a\" twice on this path; "
                            "allowed is once, because an attribute has only one value"));
  }
  EXPECT_THAT(MistakesOf("domain: d\ndescriptors:\n- {key: a, " + limit + "}\n- {key: b, value: '" +
                         std::string(1'000'000, 'x') + "*" + "', " + limit + "}"),
              ElementsAre(StartsWith(
                  "f.yaml:4:3: descriptors: cannot be converted: rules[1].match.b.regex: ")));
}

}  // namespace
}  // namespace sluice::envoy
