#include "envoy/rules/converter.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "config/rule_yaml.h"
#include "config/rules_loader.h"
#include "envoy/rules/compiler.h"
#include "envoy/rules/guide.h"
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

sluice::Pattern Absent() { return MakePattern(Kind::kNot, {}, {MakePattern(Kind::kExists)}); }

bool DelaysRequests(const RuleLimit& limit) {
  const auto* const bucket = std::get_if<LeakyBucket>(&limit.limit);
  return bucket != nullptr && bucket->delays && bucket->queue > 0;
}

// A descriptor with a limit, and the path to it.
struct Way {
  std::set<std::string> keys;
  std::vector<Condition> match;
  std::vector<KeyPart> per;
  std::string name;
};

class Converter {
 public:
  ConvertedRules Convert(const RuleTree& tree) {
    CollectKeys(tree.descriptors);
    text_ = fmt::format(
        "# Each descriptor is a check of its own, with an attribute for each entry and no others.\n"
        "domain: {}\nunmatched: allow\nrules:",
        YamlScalar(tree.domain));
    AddAll(tree.descriptors, {});
    text_ += limited_.empty() ? " []\n" : "\n";
    if (errors_.empty()) CheckText(tree);
    return {std::move(text_), std::move(errors_)};
  }

 private:
  void Report(const Descriptor& descriptor, std::string message) {
    errors_.push_back({descriptor.file, descriptor.position, "descriptors", std::move(message)});
  }

  void CollectKeys(const std::vector<Descriptor>& descriptors) {
    for (const Descriptor& it : descriptors) {
      keys_.insert(it.key);
      if (it.key.size() > 255) {
        Report(it, fmt::format("found a key of {} bytes; allowed is at most 255 bytes, because the "
                               "key becomes the name of an attribute",
                               it.key.size()));
      }
      CollectKeys(it.descriptors);
    }
  }

  // Reports mistakes that `sluice validate` would find, at the descriptor that caused them.
  void CheckText(const RuleTree& tree) {
    const RuleFile file{tree.file, text_};
    for (const Diagnostic& error : sluice::ParseRules({.files = {file}}).errors) {
      const std::string_view path = error.path;
      const bool in_rule = path.starts_with("rules[");
      const auto index =
          ParseNumber<std::size_t>(in_rule ? path.substr(6, path.find(']') - 6) : "");
      std::string message = fmt::format("cannot be converted: {}{}{}", error.path,
                                        error.path.empty() ? "" : ": ", error.message);
      if (index && *index < limited_.size()) {
        Report(*limited_[*index], std::move(message));
      } else {
        errors_.push_back({tree.file, tree.domain_position, "domain", std::move(message)});
      }
    }
  }

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
  void Follow(const Descriptor& descriptor, const std::vector<Descriptor>& siblings, Way& way) {
    if (!way.keys.insert(descriptor.key).second) {
      Report(descriptor, fmt::format("found the key \"{}\" twice on this path; allowed is once, "
                                     "because an attribute has only one value",
                                     descriptor.key));
    }
    way.name += fmt::format("{}{}", way.name.empty() ? "" : ".", NameOf(descriptor));
    if (descriptor.value.empty() || (descriptor.is_wildcard() && !descriptor.share_threshold)) {
      way.per.push_back({descriptor.key, {}, {}});
    }
    std::vector<sluice::Pattern> others = TriedBefore(descriptor, siblings);
    if (others.empty()) {
      if (!descriptor.value.empty()) way.match.push_back({descriptor.key, PatternOf(descriptor)});
      return;
    }
    if (!descriptor.value.empty()) {
      others.insert(others.begin(), MakePattern(Kind::kNot, {}, {PatternOf(descriptor)}));
    }
    auto others_or_one = others.size() == 1 ? std::move(others.front())
                                            : MakePattern(Kind::kAnyOf, {}, std::move(others));
    way.match.push_back({descriptor.key, MakePattern(Kind::kNot, {}, {std::move(others_or_one)})});
  }

  // The siblings that Envoy prefers for values that match `descriptor`.
  static std::vector<sluice::Pattern> TriedBefore(const Descriptor& descriptor,
                                                  const std::vector<Descriptor>& siblings) {
    std::vector<sluice::Pattern> before;
    if (!descriptor.value.empty() && !descriptor.is_wildcard()) return before;
    const Glob glob(descriptor.value);
    for (const Descriptor& other : siblings) {
      if (other.key != descriptor.key || other.value.empty() || &other == &descriptor) continue;
      const bool is_tried = other.is_wildcard() ? &other < &descriptor : glob.Matches(other.value);
      if (is_tried || descriptor.value.empty()) before.push_back(PatternOf(other));
    }
    return before;
  }

  void AddRule(const Descriptor& descriptor, Way way) {
    const RateLimit& limit = *descriptor.rate_limit;
    // Descriptors with other entries do not match this rule.
    for (const std::string& key : keys_) {
      if (!way.keys.contains(key)) way.match.push_back({key, Absent()});
    }
    Rule rule;
    rule.name = UniqueName(way.name);
    rule.match = std::move(way.match);
    rule.per = std::move(way.per);
    rule.limits = LimitsOf(limit);
    if (rule.limits.effect != Limits::Effect::kCount) DemandAttributes(rule);
    rule.shadow = descriptor.shadow_mode;
    rule.on_store_failure = limit.on_store_failure;
    text_ += limited_.empty() ? "" : "\n";
    limited_.push_back(&descriptor);
    text_ += fmt::format("\n  # {}:{}\n", descriptor.file, descriptor.position.line);
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
        sluice::Pattern& others = known->pattern.of.front();
        others = MakePattern(Kind::kAnyOf, {}, {std::move(others), Absent()});
      }
    }
    rule.per.clear();
  }

  void AddNotes(const Descriptor& descriptor) {
    const RateLimit& limit = *descriptor.rate_limit;
    if (!limit.replaces.empty()) text_ += "  # The key `replaces` has no counterpart here.\n";
    if (descriptor.quota_mode) text_ += "  # The key `quota_mode` has no counterpart here.\n";
    if (std::ranges::any_of(limit.limits, DelaysRequests)) {
      text_ +=
          "  # Here, requests wait in the queue; in Envoy's service none waits. To prevent this,\n"
          "  # callers set max_wait to 0s.\n";
    }
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
  Diagnostics errors_;
  std::set<std::string> keys_;  // of the whole tree
  std::set<std::string> names_;
  std::vector<const Descriptor*> limited_;  // one per rule
};

}  // namespace

ConvertedRules ConvertToYaml(const RuleTree& tree) { return Converter().Convert(tree); }

}  // namespace sluice::envoy
