// Short ways to write rules in tests.
#pragma once

#include <chrono>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "match/rule_index.h"

namespace sluice::testing {

inline Pattern Make(Pattern::Kind kind, std::string text, std::vector<Pattern> of = {}) {
  return {kind, std::move(text), std::move(of)};
}
inline Pattern Exact(std::string text) { return Make(Pattern::Kind::kExact, std::move(text)); }
inline Pattern Prefix(std::string text) { return Make(Pattern::Kind::kPrefix, std::move(text)); }
inline Pattern Regex(std::string text) { return Make(Pattern::Kind::kRegex, std::move(text)); }
inline Pattern Cidr(std::string text) { return Make(Pattern::Kind::kCidr, std::move(text)); }
inline Pattern Exists() { return Make(Pattern::Kind::kExists, ""); }
inline Pattern Not(Pattern pattern) { return Make(Pattern::Kind::kNot, "", {std::move(pattern)}); }
inline Pattern AnyOf(std::vector<Pattern> of) {
  return Make(Pattern::Kind::kAnyOf, "", std::move(of));
}

inline Limits TenPerSecond() {
  return {Limits::Effect::kCount, {FixedWindow{.limit = 10, .window = std::chrono::seconds(1)}}};
}

inline Rule MakeRule(std::string name, std::vector<Condition> match,
                     std::vector<KeyPart> per = {}) {
  Rule rule;
  rule.name = std::move(name);
  rule.match = std::move(match);
  rule.per = std::move(per);
  rule.limits = TenPerSecond();
  return rule;
}

inline KeyPart Key(std::string attribute) { return {std::move(attribute), {}, {}}; }

inline Domain MakeDomain(std::vector<Rule> rules) {
  Domain domain;
  domain.name = "shop";
  domain.rules = std::move(rules);
  return domain;
}

// REQUIRES: the rules are valid.
inline std::shared_ptr<const RuleIndex> Index(Domain domain) {
  return *RuleIndex::Build({std::move(domain)}, {});
}

// The rules of the domain "shop" that match `attributes`.
inline MatchResult Find(const RuleIndex& index, const std::vector<Attribute>& attributes) {
  MatchResult result;
  index.Match("shop", attributes, result);
  return result;
}

inline std::vector<std::string> Names(const MatchResult& result) {
  std::vector<std::string> names;
  for (const RuleMatch& match : result.matches()) names.push_back(match.rule->rule.name);
  return names;
}

}  // namespace sluice::testing
