#include "envoy/rules/converter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "envoy/rules/rules_loader.h"
#include "match/rule_index.h"

namespace sluice::envoy {
namespace {

std::string Converted(std::string text) {
  RuleTexts texts;
  texts.files.push_back({"f.yaml", std::move(text)});
  const LoadedTrees loaded = ParseRules(std::move(texts), false);
  EXPECT_TRUE(loaded.ok());
  return ConvertToYaml(loaded.trees.at(0));
}

LoadedRules Native(const std::string& text) {
  const RuleFile file{"n.yaml", text};
  return sluice::ParseRules({.files = {file}});
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
  EXPECT_EQ(Converted("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: week, "
                      "requests_per_unit: 3}}"),
            R"(# Each descriptor is a check of its own, with an attribute for each entry.
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
  LoadedRules loaded = Native(text);
  for (const Diagnostic& error : loaded.errors) ADD_FAILURE() << error.ToString() << "\n" << text;
  const auto index = RuleIndex::Build(std::move(loaded.rules), {}).value();
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
    std::vector<std::string> rules;
    std::string key;
    for (const RuleMatch& match : result.matches()) {
      if (match.outcome == RuleMatch::Outcome::kSkipped) continue;
      rules.push_back(match.rule->rule.name);
      if (!match.limits.empty()) key = match.key_prefix + match.limits[0].tag;
    }
    EXPECT_EQ(rules, row.rule.empty() ? std::vector<std::string>{} : std::vector{row.rule});
    EXPECT_EQ(key, row.key);
  }
  EXPECT_NE(text.find("`replaces` has no counterpart"), text.npos);
  EXPECT_NE(text.find("on_store_failure: error"), text.npos);
  EXPECT_NE(text.find("mode: shadow"), text.npos);
}

}  // namespace
}  // namespace sluice::envoy
