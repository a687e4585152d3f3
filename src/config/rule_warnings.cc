#include "config/rule_warnings.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr Duration kShortestRefill = std::chrono::milliseconds(10);

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
        .Warn(fmt::format("requests without \"{}\" are not limited by this rule; write missing: "
                          "skip if that is meant, else missing: deny, or {}: {{exists: true}} in "
                          "match",
                          attribute, attribute));
  }
}

// a.count/a.period <= b.count/b.period
template <typename Bucket>
bool IsSlower(const Bucket& a, const Bucket& b) {
  return static_cast<double>(a.rate) * static_cast<double>(b.period.count()) <=
         static_cast<double>(b.rate) * static_cast<double>(a.period.count());
}

// Whether `a` denies every request that `b` denies, whatever came before. False if that is not
// certain. Windows other than logs may have admitted up to twice their limit in one of b's windows.
bool Includes(const FixedWindow& a, const FixedWindow& b) {
  const bool has_length = a.window > Duration::zero() && b.window > Duration::zero();
  return has_length && a.window >= b.window && b.limit / 2 >= a.limit;
}
bool Includes(const SlidingLog& a, const SlidingLog& b) {
  return a.window >= b.window && a.limit <= b.limit;
}
bool Includes(const SlidingWindow& a, const SlidingWindow& b) {
  return a.window >= b.window && b.limit / 2 >= a.limit;
}
bool Includes(const TokenBucket& a, const TokenBucket& b) {
  return a.burst <= b.burst && IsSlower(a, b) && a.borrows == b.borrows &&
         a.starts_empty == b.starts_empty;
}
bool Includes(const WarmingBucket& a, const WarmingBucket& b) { return a == b; }
bool Includes(const LeakyBucket& a, const LeakyBucket& b) {
  return a.queue <= b.queue && a.delays == b.delays && IsSlower(a, b);
}
bool Includes(const Concurrency& a, const Concurrency& b) {
  return a.limit <= b.limit && a.ttl >= b.ttl;
}

bool Includes(const Limit& a, const Limit& b) {
  return std::visit(
      [](const auto& left, const auto& right) {
        if constexpr (std::is_same_v<decltype(left), decltype(right)>) {
          return Includes(left, right);
        } else {
          return false;
        }
      },
      a, b);
}

void WarnAboutBurst(const ConfigValue& value, const Limit& limit) {
  const auto* const bucket = std::get_if<TokenBucket>(&limit);
  if (bucket == nullptr || bucket->borrows || value.node().Find("burst") == nullptr) return;
  const std::int64_t refill = bucket->rate * kShortestRefill.count() / bucket->period.count();
  if (bucket->burst >= refill) return;
  value.Warn(
      fmt::format("a burst of {} is less than what this rate refills in 10 ms ({}), so that "
                  "requests at the same moment are denied although they keep the rate",
                  bucket->burst, refill));
}

// `value` is the node of `limits`.
void WarnAboutLimits(const ConfigValue& value, const Limits& limits) {
  const std::vector<RuleLimit>& all = limits.limits;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ConfigValue item = value.At(i, value.node().items[i]);
    WarnAboutBurst(item, all[i].limit);
    for (std::size_t other = 0; other < all.size(); ++other) {
      const bool decides_first = other != i && Includes(all[other].limit, all[i].limit);
      if (!decides_first || (other > i && Includes(all[i].limit, all[other].limit))) continue;
      item.Warn(fmt::format("never decides: limits[{}] denies all that it would deny", other));
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
