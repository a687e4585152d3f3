// Compares the index with a matcher without an index, on random rules and requests.
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "base/ip_address.h"
#include "match/rule_index.h"
#include "tests/match/rule_sets.h"

namespace sluice {
namespace {

using namespace sluice::testing;
using Request = std::map<std::string, std::string>;

// Implements the documentation word by word.
bool Holds(const Pattern& pattern, const std::string* value) {
  const auto holds = [&](const Pattern& part) { return Holds(part, value); };
  if (pattern.kind == Pattern::Kind::kNot) return !holds(pattern.of[0]);
  if (pattern.kind == Pattern::Kind::kAnyOf) {
    return std::any_of(pattern.of.begin(), pattern.of.end(), holds);
  }
  if (value == nullptr) return false;
  switch (pattern.kind) {
    case Pattern::Kind::kExact:
      return *value == pattern.text;
    case Pattern::Kind::kPrefix:
      return value->compare(0, pattern.text.size(), pattern.text) == 0;
    case Pattern::Kind::kRegex:
      return RE2::FullMatch(*value, pattern.text);
    case Pattern::Kind::kCidr: {
      const auto address = IpAddress::Parse(*value);
      return address && IpNetwork::Parse(pattern.text)->Contains(*address);
    }
    default:
      return true;
  }
}

bool Holds(const Rule& rule, const Request& request) {
  return std::all_of(rule.match.begin(), rule.match.end(), [&](const Condition& condition) {
    const auto found = request.find(condition.attribute);
    return Holds(condition.pattern, found == request.end() ? nullptr : &found->second);
  });
}

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  int Below(int end) { return std::uniform_int_distribution<>(0, end - 1)(random_); }

  std::string Attribute() { return std::string(1, static_cast<char>('a' + Below(3))); }

  // The alphabet is small, so values are often equal. Sometimes the value is an address.
  std::string Value() {
    if (Below(4) == 0) return Address();
    std::string value;
    for (int length = Below(5); length > 0; --length) value += static_cast<char>('x' + Below(2));
    return value;
  }

  std::string Address() {
    return Below(2) ? "10.0." + std::to_string(Below(3)) + "." + std::to_string(Below(3))
                    : "2001:db8::" + std::to_string(1 + Below(4));
  }

  Pattern MakePattern(int depth) {
    switch (Below(depth > 0 ? 9 : 6)) {
      case 0:
        return Prefix(Value());
      case 1:
        return Regex(Below(2) ? "x*y?" : "[xy]x.*");
      case 2: {
        const auto address = *IpAddress::Parse(Address());
        return Cidr(IpNetwork::Of(address, address.bits() - Below(20)).ToString());
      }
      case 3:
        return Exists();
      case 6:
        return Not(MakePattern(depth - 1));
      case 7:
      case 8: {
        Pattern any = AnyOf({});
        for (int n = 1 + Below(3); n > 0; --n) any.of.push_back(MakePattern(depth - 1));
        return any;
      }
      default:
        return Exact(Value());
    }
  }

  Rule MakeRandomRule(int number) {
    Rule rule = MakeRule("r" + std::to_string(number), {});
    for (int n = Below(4); n > 0; --n) rule.match.push_back({Attribute(), MakePattern(2)});
    return rule;
  }

  Request MakeRequest() {
    Request request;
    for (int n = Below(4); n > 0; --n) request[Attribute()] = Value();
    return request;
  }

 private:
  std::mt19937 random_;
};

TEST(RuleIndex, RandomRules_MatchTheSameAsWithoutAnIndex) {
  std::size_t matches = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Generator generator(seed);
    std::vector<Rule> rules;
    for (int number = 0; number < 80; ++number) rules.push_back(generator.MakeRandomRule(number));
    const auto index = Index(MakeDomain(rules));
    for (int i = 0; i < 100; ++i) {
      const Request request = generator.MakeRequest();
      std::vector<Attribute> attributes;
      for (const auto& [name, value] : request) attributes.push_back({name, value});
      std::vector<std::string> expected;
      for (const Rule& rule : rules) {
        if (Holds(rule, request)) expected.push_back(rule.name);
      }
      matches += expected.size();
      ASSERT_EQ(Names(Find(*index, attributes)), expected)
          << "seed " << seed << ", request " << i << ": " << ::testing::PrintToString(request);
    }
  }
  EXPECT_GT(matches, 10'000u);
}

// All 100,000 rules share one condition, but each has its own user. Match must test only the rules
// of the request's user. If it tested all rules, this test would take far too long.
TEST(RuleIndex, ManyRules_EachIsFound) {
  std::vector<Rule> rules;
  for (int i = 0; i < 100'000; ++i) {
    rules.push_back(MakeRule("r" + std::to_string(i),
                             {{"method", Exact("POST")}, {"user", Exact(std::to_string(i))}}));
  }
  const auto index = Index(MakeDomain(std::move(rules)));
  MatchResult result;
  for (int i = 0; i < 100'000; ++i) {
    const std::string user = std::to_string(i);
    index->Match("shop", std::vector<Attribute>{{"method", "POST"}, {"user", user}}, result);
    ASSERT_EQ(result.count, 1u);
    ASSERT_EQ(result.rules[0].rule->id, static_cast<std::uint32_t>(i));
  }
}

}  // namespace
}  // namespace sluice
