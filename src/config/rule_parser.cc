#include "config/rule_parser.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "config/limit_parser.h"
#include "config/pattern_parser.h"
#include "core/algorithm/grant.h"
#include "match/counter_key.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

bool RequiresPresence(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kNot) return false;
  return pattern.kind != Pattern::Kind::kAnyOf || std::ranges::all_of(pattern.of, RequiresPresence);
}

bool EnsuresAttribute(const std::vector<Condition>& match, std::string_view attribute) {
  return std::ranges::any_of(match, [&](const Condition& condition) {
    return condition.attribute == attribute && RequiresPresence(condition.pattern);
  });
}

// Warns about attributes of `per` that a matching request may lack; the rule is skipped for such a
// request. `list` is the node of `per`.
void WarnAboutMissingAttributes(const ConfigValue& list, const Rule& rule) {
  for (std::size_t i = 0; i < rule.per.size(); ++i) {
    const std::string& attribute = rule.per[i].attribute;
    if (EnsuresAttribute(rule.match, attribute)) continue;
    list.At(i, list.node().items[i])
        .Warn(fmt::format(
            "this rule does not limit requests without \"{}\"; if that is intended, write missing: "
            "skip, or {}: {{exists: true}} in match; otherwise write missing: deny",
            attribute, attribute));
  }
}

// Warns about weights that are larger than any cost that the limit can admit. `value` is the node
// of the limit.
void WarnAboutWeights(const ConfigValue& value, const RuleLimit& limit) {
  const std::int64_t most = MostAtOnce(limit.limit);
  for (const CountedAmount& counted : limit.counts) {
    if (counted.weight <= most) continue;
    value.Warn(fmt::format(
        "never admits a request with \"{}\": an amount of 1 takes {} units, and the limit "
        "admits at most {} at once",
        counted.name, counted.weight, most));
  }
}

// Warns if `prefetch` of `all[index]` has no effect. `value` is the node of this limit.
void WarnAboutPrefetch(const ConfigValue& value, const std::vector<RuleLimit>& all,
                       std::size_t index) {
  const Limit& limit = all[index].limit;
  if (GrantLife(limit) == Duration{}) return;
  constexpr std::int64_t kFewest = GrantsOut::kPartOfLevel * GrantsOut::kFewest;
  if (MostAtOnce(limit) < kFewest) {
    return value.Warn(fmt::format(
        "prefetch has no effect: the limit admits less than {} at once, so Redis grants nothing",
        kFewest));
  }
  const auto asks_redis =
      std::ranges::find(all, Duration{}, [](const RuleLimit& it) { return GrantLife(it.limit); });
  if (asks_redis == all.end()) return;
  value.Warn(
      fmt::format("prefetch has no effect: limits[{}] has no prefetch, so Redis decides each check",
                  asks_redis - all.begin()));
}

// Warns about weights and `prefetch`. Also warns about each limit that has no effect, because
// another limit of the list denies every request that this limit would deny. `list` is the node of
// the limits.
void WarnAboutLimits(const ConfigValue& list, const std::vector<RuleLimit>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ConfigValue item = list.At(i, list.node().items[i]);
    WarnAboutWeights(item, all[i]);
    WarnAboutPrefetch(item, all, i);
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (all[other].counts != all[i].counts) continue;
      const bool decides_first = other != i && Includes(all[other].limit, all[i].limit);
      if (!decides_first || (other > i && Includes(all[i].limit, all[other].limit))) continue;
      item.Warn(fmt::format(
          "never decides: limits[{}] denies every request that this limit would deny", other));
      break;
    }
  }
}

// Warns about overrides that never apply, because an earlier one has the same match. `list` is the
// node of the overrides.
void WarnAboutOverrides(const ConfigValue& list, const std::vector<Override>& all) {
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; all.size() > 1 && i < all.size(); ++i) {
    const auto [same, is_new] = first.try_emplace(DigestOfMatch(all[i].match), i);
    if (is_new) continue;
    list.At(i, list.node().items[i])
        .Warn(fmt::format("never applies: overrides[{}] has the same match", same->second));
  }
}

std::optional<int> ParsePrefixLength(const ConfigMap& fields, std::string_view key, int most) {
  const auto length = fields.Find(key);
  if (!length) return std::nullopt;
  return static_cast<int>(length->Integer(0, most));
}

KeyPart ParseKeyPart(const ConfigValue& value) {
  if (value.node().kind != Kind::kMap) {
    return {ParseAttributeName(value), std::nullopt, std::nullopt};
  }
  const ConfigMap fields(value, {"attribute", "ipv4_prefix", "ipv6_prefix"});
  KeyPart part;
  if (const auto name = fields.Require("attribute", "is the name of an attribute")) {
    part.attribute = ParseAttributeName(*name);
  }
  part.ipv4_prefix = ParsePrefixLength(fields, "ipv4_prefix", 32);
  part.ipv6_prefix = ParsePrefixLength(fields, "ipv6_prefix", 128);
  return part;
}

std::vector<KeyPart> ParsePer(const ConfigValue& value) {
  std::vector<KeyPart> per;
  for (const ConfigValue& item : value.Items("is a list of attributes such as [user]")) {
    KeyPart part = ParseKeyPart(item);
    const bool is_known = std::ranges::find(per, part.attribute, &KeyPart::attribute) != per.end();
    if (is_known && !part.attribute.empty()) {
      item.Report(fmt::format("found \"{}\" a second time; allowed only once", part.attribute));
    }
    per.push_back(std::move(part));
  }
  return per;
}

Limits ParseLimits(const ConfigValue& value) {
  using Effect = Limits::Effect;
  constexpr std::string_view kAllowed = "is a list of 1 to 16 limits, or blocked, or unlimited";
  static constexpr std::array<std::string_view, 2> kWords{"blocked", "unlimited"};
  const YamlNode& node = value.node();
  if (node.kind == Kind::kScalar && node.text == "blocked") return {Effect::kBlocked, {}};
  if (node.kind == Kind::kScalar && node.text == "unlimited") return {Effect::kUnlimited, {}};
  if (node.kind != Kind::kSequence) {
    value.ReportFound(std::string(kAllowed) + DidYouMean(node.text, kWords));
    return {};
  }
  if (node.items.empty() || node.items.size() > 16) {
    value.Report(fmt::format("found a list of {} limits; allowed {}", node.items.size(), kAllowed));
  }
  Limits limits;
  limits.limits = ParseLimitItems(value, kAllowed);
  WarnAboutLimits(value, limits.limits);
  return limits;
}

Override ParseOverride(const ConfigValue& value) {
  const ConfigMap fields(value, {"match", "limits", "counter"});
  Override other;
  if (const auto match = fields.Require("match", "is a map of attributes to patterns")) {
    other.match = ParseMatch(*match);
    if (match->node().kind == Kind::kMap && match->node().items.empty()) {
      match->Report("found an empty map; allowed is at least one attribute");
    }
  }
  if (const auto limits =
          fields.Require("limits", "is a list of limits, or blocked, or unlimited")) {
    other.limits = ParseLimits(*limits);
  }
  if (const auto counter = fields.Find("counter")) {
    other.own_counter = counter->OneOf<bool>({{"shared", false}, {"own", true}});
  }
  return other;
}

void ParsePolicies(const ConfigMap& fields, Rule& rule) {
  if (const auto mode = fields.Find("mode")) {
    rule.shadow = mode->OneOf<bool>({{"enforce", false}, {"shadow", true}});
  }
  if (const auto missing = fields.Find("missing")) {
    rule.missing =
        missing->OneOf<OnMissing>({{"skip", OnMissing::kSkip}, {"deny", OnMissing::kDeny}});
  }
  if (const auto deny_cache = fields.Find("deny_cache")) {
    rule.deny_cache = deny_cache->OneOf<bool>({{"true", true}, {"false", false}});
  }
  if (const auto failure = fields.Find("on_store_failure")) {
    rule.on_store_failure = ParseOnStoreFailure(*failure);
  }
}

}  // namespace

OnStoreFailure ParseOnStoreFailure(const ConfigValue& value) {
  return static_cast<OnStoreFailure>(value.WordOf(kOnStoreFailures));
}

std::string ParseAttributeName(const ConfigValue& value) {
  return value.NonEmptyText("is the name of an attribute, 1 to 255 bytes", 255);
}

Rule ParseRule(const ConfigValue& value) {
  const ConfigMap fields(value, {"name", "match", "per", "limits", "overrides", "mode", "missing",
                                 "on_store_failure", "deny_cache", "max_lease_ttl"});
  Rule rule;
  rule.location = fmt::format("{}:{}", value.report().file, value.node().position.line);
  if (const auto name = fields.Require("name", "are 1 to 100 letters, digits, _, . and -")) {
    rule.name = name->Name();
  }
  if (const auto match = fields.Find("match")) rule.match = ParseMatch(*match);
  if (const auto per = fields.Find("per")) {
    rule.per = ParsePer(*per);
    if (!fields.Find("missing")) WarnAboutMissingAttributes(*per, rule);
  }
  if (const auto limits =
          fields.Require("limits", "is a list of limits, or blocked, or unlimited")) {
    rule.limits = ParseLimits(*limits);
  }
  if (const auto overrides = fields.Find("overrides")) {
    for (const ConfigValue& item : overrides->Items("is a list of maps with match and limits")) {
      rule.overrides.push_back(ParseOverride(item));
    }
    WarnAboutOverrides(*overrides, rule.overrides);
  }
  ParsePolicies(fields, rule);
  if (const auto ttl = fields.Find("max_lease_ttl")) {
    rule.max_lease_ttl = ttl->Length(kMinLeaseTtl, kMaxLeaseTtl).value_or(rule.max_lease_ttl);
  }
  return rule;
}

}  // namespace sluice
