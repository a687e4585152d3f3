#include "envoy/rules/guide.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "envoy/rules/compiler.h"
#include "envoy/rules/rules_loader.h"

namespace sluice::envoy {
namespace {

constexpr const char* kTrees = R"(
domain: shop
descriptors:
  - key: path
    value: /pay*
    share_threshold: true
    rate_limit: {unit: second, requests_per_unit: 1}
  - key: path
    value: "*pay*"
    rate_limit: {unit: second, requests_per_unit: 2}
  - key: path
    value: /pay
    rate_limit: {unit: second, requests_per_unit: 3}
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 4}
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 5}
      - key: user
        value: root
  - key: plan
    descriptors:
      - {key: user, rate_limit: {unlimited: true}}
)";

std::shared_ptr<const Guide> GuideOf(std::string text) {
  RuleTexts texts;
  texts.files.push_back({"f.yaml", std::move(text)});
  LoadedTrees loaded = ParseRules(std::move(texts), false);
  EXPECT_TRUE(loaded.ok());
  return Compile(std::move(loaded.trees)).guide;
}

TEST(Guide, Match_FindsRuleAndCounter) {
  struct Row {
    std::vector<Entry> entries;
    std::string rule;  // empty: no limit
    std::string counter;
  };
  const Row rows[] = {
      {{}, "", ""},
      {{{"other", "x"}}, "", ""},
      // The order of preference: the exact value, the first pattern that matches, the key alone.
      {{{"path", "/pay"}}, "path=/pay", "path=/pay"},
      {{{"path", "/payment"}}, "path=/pay*", "path=/pay*"},  // shared
      {{{"path", "/repay"}}, "path=*pay*", "path=/repay"},
      {{{"path", "*pay*"}}, "path=*pay*", "path=*pay*"},
      {{{"path", "/x"}}, "path", "path=/x"},
      {{{"path", ""}}, "path", "path="},
      // Deeper levels. There is no backtracking from an exact value or a pattern to the key alone.
      {{{"path", "/x"}, {"user", "eve"}}, "path,user", "path=/x,user=eve"},
      {{{"path", "/pay"}, {"user", "eve"}}, "", ""},
      {{{"path", "/payment"}, {"user", "eve"}}, "", ""},
      {{{"path", "/x"}, {"user", "root"}}, "", ""},  // an allow list
      {{{"path", "/x"}, {"user", "eve"}, {"more", ""}}, "", ""},
      // The order of entries matters.
      {{{"user", "eve"}, {"path", "/x"}}, "", ""},
      {{{"plan", "gold"}}, "", ""},
      {{{"plan", "gold"}, {"user", "a=b,c"}}, "plan,user", "plan=gold,user=a\\=b\\,c"},
  };
  const auto guide = GuideOf(kTrees);
  TrieMatch match;
  for (const Row& row : rows) {
    Match(*guide->Find("shop"), row.entries, match);
    ASSERT_EQ(match.target != nullptr, !row.rule.empty()) << row.counter;
    if (match.target == nullptr) continue;
    EXPECT_EQ(match.target->rule, row.rule);
    EXPECT_EQ(match.counter, row.counter);
  }
  EXPECT_EQ(guide->Find("other"), nullptr);
}

TEST(Guide, DifferentEntries_HaveDifferentCounters) {
  const auto guide = GuideOf(
      "domain: d\ndescriptors: [{key: a, descriptors: [{key: b, rate_limit: "
      "{unit: day, requests_per_unit: 1}}]}]");
  const auto counter = [&](std::string_view a, std::string_view b) {
    TrieMatch match;
    const std::vector<Entry> entries{{"a", a}, {"b", b}};
    Match(*guide->Find("d"), entries, match);
    return match.counter;
  };
  EXPECT_NE(counter("1,b=2", "3"), counter("1", "2,b=3"));
  EXPECT_NE(counter("\\", ""), counter("", "\\"));
  const std::string large(1 << 20, 'x');
  EXPECT_LT(counter(large, "1").size(), 100u);
  EXPECT_NE(counter(large, "1"), counter(large, "2"));
  EXPECT_NE(counter(large, "1"), counter(large + "x", "1"));
}

TEST(Guide, MetricOfASharedThreshold_HasThePatternInsteadOfTheValue) {
  const auto guide = GuideOf(R"(
domain: d
descriptors:
  - key: a
    value: x*
    share_threshold: true
    value_to_metric: true
    descriptors:
      - {key: b, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}
      - {key: c, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}
)");
  TrieMatch match;
  for (const auto& [key, metric] : {std::pair("b", "a=x*,b=1"), {"c", "a=x*,c=1"}}) {
    const std::vector<Entry> entries{{"a", "xyz"}, {key, "1"}};
    Match(*guide->Find("d"), entries, match);
    EXPECT_EQ(match.metric, metric);
  }
}

TEST(Compile, LongPath_HasAShortRuleName) {
  const auto guide = GuideOf("domain: d\ndescriptors: [{key: a, value: " + std::string(9000, 'v') +
                             ", rate_limit: {unit: day}}]");
  TrieMatch match;
  const std::string value(9000, 'v');
  const std::vector<Entry> entries{{"a", value}};
  Match(*guide->Find("d"), entries, match);
  ASSERT_NE(match.target, nullptr);
  EXPECT_LT(match.target->rule.size(), 100u);
}

TEST(Compile, EveryLimit_BecomesASeparateRule) {
  RuleTexts texts;
  texts.files.push_back({"f.yaml", kTrees});
  const auto compiled = Compile(ParseRules(std::move(texts), false).trees);
  ASSERT_EQ(compiled.rules.size(), 1u);
  std::vector<std::string> names;
  for (const Rule& rule : compiled.rules[0].rules) names.push_back(rule.name);
  EXPECT_EQ(names, (std::vector<std::string>{"path=/pay*", "path=*pay*", "path=/pay", "path",
                                             "path,user", "plan,user", "(override)"}));
  EXPECT_EQ(compiled.rules[0].rules[0].location, "f.yaml:4");
  EXPECT_EQ(compiled.rules[0].rules[5].limits.effect, Limits::Effect::kUnlimited);
  auto index = RuleIndex::Build(compiled.rules, {.guide = compiled.guide});
  ASSERT_TRUE(index);
  EXPECT_EQ((*index)->guide(), compiled.guide.get());

  MatchResult result;
  const std::vector<Attribute> attributes{{"rule", "path,user"}, {"descriptor", "path=x,user=y"}};
  (*index)->Match("shop", attributes, result);
  ASSERT_EQ(result.count, 1u);
  EXPECT_EQ(result.rules[0].key_prefix, "sluice:{shop/descriptor/path=x,user=y}:");
  EXPECT_EQ(result.rules[0].limits[0].tag, "fixed_window:1h:epoch");
}

// Operators write a descriptor; CompleteDescriptor turns it into the attributes of a check.
TEST(Guide, CompleteDescriptor_DescriptorWithALimit_AddsTheRule) {
  RuleTexts texts;
  texts.files.push_back({"f.yaml", kTrees});
  CompiledRules compiled = Compile(ParseRules(std::move(texts), false).trees);
  const auto index = RuleIndex::Build(std::move(compiled.rules), {.guide = compiled.guide}).value();
  const struct {
    const char* descriptor;
    const char* attributes;
  } rows[] = {
      {"path=/x", "rule: path, descriptor: path=/x"},
      {"path=/payment", "rule: path=/pay*, descriptor: path=/pay*"},
      {"path=/x,user=7", "rule: path,user, descriptor: path=/x,user=7"},
      {R"(path=/a\,b\=c=d)", R"(rule: path, descriptor: path=/a\,b\=c\=d)"},
      {"path", "rule: path, descriptor: path="},
      {"path,user", "rule: path,user, descriptor: path=,user="},
      {"path=/x,user=root", "descriptor: path=/x,user=root"},
      {"user=7", "descriptor: user=7"},
      {"", "descriptor: "},
  };
  for (const auto& row : rows) {
    std::vector<Attribute> attributes{{kDescriptorAttribute, row.descriptor}};
    std::string counter;
    CompleteDescriptor(*index, "shop", attributes, counter);
    std::string text;
    for (const auto& [name, value] : attributes) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, value);
    }
    EXPECT_EQ(text, row.attributes) << row.descriptor;
  }
  std::string counter;
  for (const char* domain : {"bank", "shop"}) {
    std::vector<Attribute> attributes{{kDescriptorAttribute, "path=/x"}};
    if (std::string_view(domain) == "shop") attributes.push_back({kRuleAttribute, "path"});
    const std::size_t size = attributes.size();
    CompleteDescriptor(*index, domain, attributes, counter);
    EXPECT_EQ(attributes.size(), size) << "the attributes have changed";
  }
}

}  // namespace
}  // namespace sluice::envoy
