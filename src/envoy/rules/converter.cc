#include "envoy/rules/converter.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/rule_yaml.h"
#include "envoy/rules/compiler.h"
#include "match/pattern_yaml.h"

namespace sluice::envoy {
namespace {

using Kind = sluice::Pattern::Kind;

sluice::Pattern MakePattern(Kind kind, std::string text = {},
                            std::vector<sluice::Pattern> of = {}) {
  return {.kind = kind, .text = std::move(text), .of = std::move(of)};
}

// Converts a value with stars to a regular expression of RE2.
std::string ToRegex(std::string_view glob) {
  std::string regex;
  for (const char c : glob) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80) != 0;
    if (c == '*') {
      regex += ".*";
    } else {
      if (!plain) regex += '\\';
      regex += c;
    }
  }
  return regex;
}

sluice::Pattern PatternOf(const Descriptor& descriptor) {
  if (!descriptor.is_wildcard()) return MakePattern(Kind::kExact, descriptor.value);
  return MakePattern(Kind::kRegex, ToRegex(descriptor.value));
}

// A descriptor with a limit, and the path to it.
struct Way {
  std::vector<Condition> match;
  std::vector<KeyPart> per;
  std::string name;
  std::vector<std::string> notes;
};

class Converter {
 public:
  std::string Convert(const RuleTree& tree) {
    text_ = fmt::format(
        "# Each descriptor is a check of its own, with an attribute for each entry.\n"
        "domain: {}\nunmatched: allow\nrules:",
        YamlScalar(tree.domain));
    AddAll(tree.descriptors, {});
    text_ += any_ ? "\n" : " []\n";
    return std::move(text_);
  }

 private:
  void AddAll(const std::vector<Descriptor>& siblings, const Way& way) {
    for (const Descriptor& it : siblings) Add(it, siblings, way);
  }

  void Add(const Descriptor& descriptor, const std::vector<Descriptor>& siblings, Way way) {
    Follow(descriptor, siblings, way);
    if (descriptor.rate_limit) AddRule(descriptor, way);
    AddAll(descriptor.descriptors, way);
  }

  // Of the siblings with the same key, Envoy tries exact values first, then patterns in file order,
  // then the key alone.
  static void Follow(const Descriptor& descriptor, const std::vector<Descriptor>& siblings,
                     Way& way) {
    const bool twice =
        std::ranges::find(way.match, descriptor.key, &Condition::attribute) != way.match.end() ||
        std::ranges::find(way.per, descriptor.key, &KeyPart::attribute) != way.per.end();
    if (twice) {
      way.notes.push_back(
          fmt::format("The key {} occurs twice on this path; an attribute has only one value.",
                      YamlScalar(descriptor.key)));
    }
    way.name += fmt::format("{}{}", way.name.empty() ? "" : ".", NameOf(descriptor));
    if (descriptor.value.empty()) {
      FollowAny(descriptor, siblings, way);
      return;
    }
    way.match.push_back({descriptor.key, PatternOf(descriptor)});
    if (!descriptor.is_wildcard()) return;
    if (!descriptor.share_threshold) way.per.push_back({descriptor.key, {}, {}});
    for (const Descriptor& other : siblings) {
      if (&other == &descriptor) break;
      if (other.key != descriptor.key || other.value.empty()) continue;
      way.notes.push_back(fmt::format("Envoy's rule does not count requests that match {}.",
                                      YamlScalar(other.value)));
    }
  }

  static void FollowAny(const Descriptor& descriptor, const std::vector<Descriptor>& siblings,
                        Way& way) {
    way.per.push_back({descriptor.key, {}, {}});
    std::vector<sluice::Pattern> others;
    for (const Descriptor& other : siblings) {
      if (other.key == descriptor.key && !other.value.empty()) others.push_back(PatternOf(other));
    }
    if (others.empty()) return;
    auto others_or_one = others.size() == 1 ? std::move(others.front())
                                            : MakePattern(Kind::kAnyOf, {}, std::move(others));
    way.match.push_back({descriptor.key, MakePattern(Kind::kNot, {}, {std::move(others_or_one)})});
  }

  void AddRule(const Descriptor& descriptor, Way way) {
    const RateLimit& limit = *descriptor.rate_limit;
    // Descriptors with further entries do not match this rule.
    std::set<std::string> further;
    for (const Descriptor& child : descriptor.descriptors) further.insert(child.key);
    for (const std::string& key : further) {
      way.match.push_back({key, MakePattern(Kind::kNot, {}, {MakePattern(Kind::kExists)})});
    }
    Rule rule;
    rule.name = UniqueName(way.name);
    rule.match = std::move(way.match);
    rule.per = std::move(way.per);
    rule.limits = LimitsOf(limit);
    if (rule.limits.effect != Limits::Effect::kCount) DemandAttributes(rule);
    rule.shadow = descriptor.shadow_mode;
    rule.on_store_failure = limit.on_store_failure;
    text_ += std::exchange(any_, true) ? "\n" : "";
    text_ += fmt::format("\n  # {}:{}\n", descriptor.file, descriptor.position.line);
    for (const std::string& note : way.notes) text_ += fmt::format("  # {}\n", note);
    AddNotes(descriptor);
    text_ += ToYamlItem(rule);
  }

  // In Sluice, a blocked or unlimited rule also matches requests without the attributes of its
  // `per`. Envoy's rule requires these attributes, so they become conditions of the match.
  static void DemandAttributes(Rule& rule) {
    for (const KeyPart& part : rule.per) {
      const auto known = std::ranges::find(rule.match, part.attribute, &Condition::attribute);
      if (known == rule.match.end()) {
        rule.match.push_back({part.attribute, MakePattern(Kind::kExists)});
      } else if (known->pattern.kind == Kind::kNot) {  // also true if the attribute is absent
        sluice::Pattern absent = MakePattern(Kind::kNot, {}, {MakePattern(Kind::kExists)});
        sluice::Pattern& others = known->pattern.of.front();
        others = MakePattern(Kind::kAnyOf, {}, {std::move(others), std::move(absent)});
      }
    }
    rule.per.clear();
  }

  void AddNotes(const Descriptor& descriptor) {
    const RateLimit& limit = *descriptor.rate_limit;
    if (!limit.replaces.empty()) text_ += "  # The key `replaces` has no counterpart here.\n";
    if (descriptor.quota_mode) text_ += "  # The key `quota_mode` has no counterpart here.\n";
    if (limit.unit == Unit::kUnknown || limit.requests_per_unit == 0) return;
    text_ += fmt::format(
        "  # Up to twice the limit can pass around a window boundary. To prevent this:\n"
        "  #   {{algorithm: sliding_window, limit: {}, window: {}}}\n",
        limit.requests_per_unit, FormatDuration(LengthOf(limit.unit)));
  }

  static Limits LimitsOf(const RateLimit& limit) {
    if (limit.unlimited) return {Limits::Effect::kUnlimited, {}};
    if (!limit.limits.empty()) return {Limits::Effect::kCount, limit.limits};
    if (limit.requests_per_unit == 0) return {Limits::Effect::kBlocked, {}};
    return {Limits::Effect::kCount, {LimitOf(limit.unit, limit.requests_per_unit)}};
  }

  // Converts to a valid name of a rule.
  static std::string NameOf(const Descriptor& descriptor) {
    std::string name = descriptor.key;
    if (!descriptor.value.empty()) name += "-" + descriptor.value;
    std::replace_if(
        name.begin(), name.end(),
        [](unsigned char c) { return (c & 0x80) != 0 || (!std::isalnum(c) && c != '-'); }, '_');
    return name;
  }

  std::string UniqueName(const std::string& wanted) {
    constexpr std::size_t kLongest = 90;
    const std::string base = wanted.substr(0, kLongest);
    std::string name = base;
    for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}.{}", base, i);
    return name;
  }

  std::string text_;
  std::set<std::string> names_;
  bool any_ = false;
};

}  // namespace

std::string ConvertToYaml(const RuleTree& tree) { return Converter().Convert(tree); }

}  // namespace sluice::envoy
