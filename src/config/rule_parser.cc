#include "config/rule_parser.h"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "config/limit_parser.h"
#include "config/pattern_parser.h"
#include "config/rule_warnings.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

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
    const bool is_known = std::any_of(per.begin(), per.end(), [&](const KeyPart& other) {
      return other.attribute == part.attribute && !part.attribute.empty();
    });
    if (is_known) {
      item.Report(fmt::format("found \"{}\" a second time; allowed is once", part.attribute));
    }
    per.push_back(std::move(part));
  }
  return per;
}

Limits ParseLimits(const ConfigValue& value) {
  using Effect = Limits::Effect;
  constexpr std::string_view kAllowed = "are a list of 1 to 16 limits, blocked and unlimited";
  static constexpr std::array<std::string_view, 2> kWords{"blocked", "unlimited"};
  const YamlNode& node = value.node();
  if (node.kind == Kind::kScalar && node.text == "blocked") return {Effect::kBlocked, {}};
  if (node.kind == Kind::kScalar && node.text == "unlimited") return {Effect::kUnlimited, {}};
  if (node.kind != Kind::kSequence) {
    value.ReportFound(std::string(kAllowed) + DidYouMean(node.text, kWords));
    return {};
  }
  if (node.items.empty() || node.items.size() > 16) {
    value.Report(fmt::format("found a list of {}; allowed {}", node.items.size(), kAllowed));
  }
  Limits limits;
  limits.limits = ParseLimitItems(value, kAllowed);
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
  if (const auto limits = fields.Require("limits", "are a list of limits, blocked and unlimited")) {
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
  constexpr std::string_view kAllowed = "is the name of an attribute, 1 to 255 bytes";
  const auto name = value.Text(kAllowed);
  if (!name) return "";
  if (name->empty() || name->size() > 255) {
    value.ReportFound(kAllowed);
    return "";
  }
  return std::string(*name);
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
  if (const auto per = fields.Find("per")) rule.per = ParsePer(*per);
  if (const auto limits = fields.Require("limits", "are a list of limits, blocked and unlimited")) {
    rule.limits = ParseLimits(*limits);
  }
  if (const auto overrides = fields.Find("overrides")) {
    for (const ConfigValue& item : overrides->Items("is a list of maps of match and limits")) {
      rule.overrides.push_back(ParseOverride(item));
    }
  }
  ParsePolicies(fields, rule);
  if (const auto ttl = fields.Find("max_lease_ttl")) {
    rule.max_lease_ttl = ttl->Length(kMinLeaseTtl, kMaxLeaseTtl).value_or(rule.max_lease_ttl);
  }
  WarnAbout(value, rule);
  return rule;
}

}  // namespace sluice
