#include "config/rule_warnings.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/algorithm/grant.h"

namespace sluice {
namespace {

bool RequiresPresence(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kNot) return false;
  return pattern.kind != Pattern::Kind::kAnyOf ||
         std::all_of(pattern.of.begin(), pattern.of.end(), RequiresPresence);
}

bool EnsuresAttribute(const std::vector<Condition>& match, std::string_view attribute) {
  return std::any_of(match.begin(), match.end(), [&](const Condition& condition) {
    return condition.attribute == attribute && RequiresPresence(condition.pattern);
  });
}

void WarnAboutMissingAttributes(const ConfigValue& value, const Rule& rule) {
  const YamlNode* const per = value.node().Find("per");
  if (per == nullptr || value.node().Find("missing") != nullptr) return;
  const ConfigValue list = value.At("per", *per);
  for (std::size_t i = 0; i < rule.per.size(); ++i) {
    const std::string& attribute = rule.per[i].attribute;
    if (EnsuresAttribute(rule.match, attribute)) continue;
    list.At(i, per->items[i])
        .Warn(fmt::format(
            "requests without \"{}\" are not limited by this rule; write missing: "
            "skip if that is meant, otherwise missing: deny, or {}: {{exists: true}} in "
            "match",
            attribute, attribute));
  }
}

// `value` is the node of the limit.
void WarnAboutWeights(const ConfigValue& value, const RuleLimit& limit) {
  const std::int64_t most = MostAtOnce(limit.limit);
  for (const CountedAmount& counted : limit.counts) {
    if (counted.weight <= most) continue;
    value.Warn(
        fmt::format("never admits a request with \"{}\": each 1 of it is {} units, and the limit "
                    "admits at most {} at once",
                    counted.name, counted.weight, most));
  }
}

// `value` is the node of limit `index` of `all`.
void WarnAboutPrefetch(const ConfigValue& value, const std::vector<RuleLimit>& all,
                       std::size_t index) {
  const Limit& limit = all[index].limit;
  if (GrantLife(limit) == Duration{}) return;
  constexpr std::int64_t kFewest = GrantsOut::kPartOfLevel * GrantsOut::kFewest;
  if (MostAtOnce(limit) < kFewest) {
    return value.Warn(fmt::format(
        "prefetch has no effect: a limit that admits less than {} at once grants nothing",
        kFewest));
  }
  const auto asks_redis = std::find_if(all.begin(), all.end(), [](const RuleLimit& it) {
    return GrantLife(it.limit) == Duration{};
  });
  if (asks_redis == all.end()) return;
  value.Warn(fmt::format("prefetch has no effect: limits[{}] has none, so Redis decides each check",
                         asks_redis - all.begin()));
}

// `value` is the node of `limits`.
void WarnAboutLimits(const ConfigValue& value, const Limits& limits) {
  const std::vector<RuleLimit>& all = limits.limits;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ConfigValue item = value.At(i, value.node().items[i]);
    WarnAboutWeights(item, all[i]);
    WarnAboutPrefetch(item, all, i);
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (all[other].counts != all[i].counts) continue;
      const bool decides_first = other != i && Includes(all[other].limit, all[i].limit);
      if (!decides_first || (other > i && Includes(all[i].limit, all[other].limit))) continue;
      item.Warn(fmt::format("never decides: limits[{}] denies all this one would deny", other));
      break;
    }
  }
}

void WarnAboutLimitsOf(const ConfigValue& owner, const Limits& limits) {
  const YamlNode* const node = owner.node().Find("limits");
  if (node != nullptr && node->items.size() == limits.limits.size()) {
    WarnAboutLimits(owner.At("limits", *node), limits);
  }
}

}  // namespace

void WarnAbout(const ConfigValue& value, const Rule& rule) {
  if (value.node().kind != YamlNode::Kind::kMap) return;
  WarnAboutMissingAttributes(value, rule);
  WarnAboutLimitsOf(value, rule.limits);
  const YamlNode* const overrides = value.node().Find("overrides");
  if (overrides == nullptr) return;
  const ConfigValue list = value.At("overrides", *overrides);
  for (std::size_t i = 0; i < rule.overrides.size(); ++i) {
    const ConfigValue item = list.At(i, overrides->items[i]);
    if (item.node().kind == YamlNode::Kind::kMap) {
      WarnAboutLimitsOf(item, rule.overrides[i].limits);
    }
  }
}

}  // namespace sluice
