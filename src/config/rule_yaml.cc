#include "config/rule_yaml.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "match/pattern_yaml.h"

namespace sluice {
namespace {

std::string ToYaml(const KeyPart& part) {
  if (!part.ipv4_prefix && !part.ipv6_prefix) return YamlScalar(part.attribute);
  std::string text = fmt::format("{{attribute: {}", YamlScalar(part.attribute));
  if (part.ipv4_prefix) text += fmt::format(", ipv4_prefix: {}", *part.ipv4_prefix);
  if (part.ipv6_prefix) text += fmt::format(", ipv6_prefix: {}", *part.ipv6_prefix);
  return text + "}";
}

std::string ListOf(const std::vector<KeyPart>& parts) {
  std::vector<std::string> texts;
  std::transform(parts.begin(), parts.end(), std::back_inserter(texts),
                 [](const KeyPart& part) { return ToYaml(part); });
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// "/s", "/m", "/h" or "/d".
std::string PerUnit(Duration period) { return "/" + FormatDuration(period).substr(1); }

// The parameters of one limit that differ from their defaults.
struct Parameters {
  std::string operator()(const FixedWindow& limit) const {
    using Align = FixedWindow::Align;
    const bool is_month = limit.align == Align::kMonth;
    std::string text = fmt::format("limit: {}, window: {}", limit.limit,
                                   is_month ? "month" : FormatDuration(limit.window));
    if (limit.align == Align::kClock) text += ", align: clock";
    if (limit.align == Align::kEpoch) text += ", align: epoch";
    if (limit.utc_offset != Duration::zero()) {
      text += fmt::format(", utc_offset: \"{}\"", FormatUtcOffset(limit.utc_offset));
    }
    return text;
  }
  std::string operator()(const SlidingLog& limit) const {
    return fmt::format("limit: {}, window: {}", limit.limit, FormatDuration(limit.window));
  }
  std::string operator()(const SlidingWindow& limit) const {
    std::string text =
        fmt::format("limit: {}, window: {}", limit.limit, FormatDuration(limit.window));
    if (limit.segments != SlidingWindow{}.segments) {
      text += fmt::format(", segments: {}", limit.segments);
    }
    return text;
  }
  std::string operator()(const TokenBucket& limit) const {
    std::string text = fmt::format("rate: {}{}", limit.rate, PerUnit(limit.period));
    if (limit.burst != TokenBucket::DefaultBurst(limit.rate, limit.period)) {
      text += fmt::format(", burst: {}", limit.burst);
    }
    if (limit.starts_empty) text += ", initial: empty";
    if (limit.borrows) text += ", borrow: true";
    return text;
  }
  std::string operator()(const WarmingBucket& limit) const {
    return fmt::format("rate: {}{}, warmup: {}", limit.rate, PerUnit(limit.period),
                       FormatDuration(limit.warmup));
  }
  std::string operator()(const LeakyBucket& limit) const {
    return fmt::format("rate: {}{}, queue: {}{}", limit.rate, PerUnit(limit.period), limit.queue,
                       limit.delays ? "" : ", delay: false");
  }
  std::string operator()(const Concurrency& limit) const {
    return fmt::format("limit: {}, ttl: {}", limit.limit, FormatDuration(limit.ttl));
  }
};

// The value of the key `limits`; a list has one line per limit.
std::string ToYaml(const Limits& limits, std::string_view indent) {
  if (limits.effect == Limits::Effect::kBlocked) return " blocked\n";
  if (limits.effect == Limits::Effect::kUnlimited) return " unlimited\n";
  std::string text = "\n";
  for (const RuleLimit& limit : limits.limits) {
    const std::string name = limit.name.empty() ? "" : "name: " + YamlScalar(limit.name) + ", ";
    text += fmt::format("{}- {{algorithm: {}, {}{}}}\n", indent, ToString(AlgorithmOf(limit.limit)),
                        name, std::visit(Parameters{}, limit.limit));
  }
  return text;
}

std::string ToYaml(const std::vector<Override>& overrides) {
  if (overrides.empty()) return "";
  std::string text = "overrides:\n";
  for (const Override& other : overrides) {
    text += fmt::format("  - match: {}\n", ToYaml(other.match));
    text += fmt::format("    limits:{}", ToYaml(other.limits, "      "));
    if (other.own_counter) text += "    counter: own\n";
  }
  return text;
}

std::string_view ToString(OnStoreFailure policy) {
  switch (policy) {
    case OnStoreFailure::kLocal:
      return "local";
    case OnStoreFailure::kAllow:
      return "allow";
    case OnStoreFailure::kDeny:
      return "deny";
    case OnStoreFailure::kError:
      return "error";
  }
  return "";
}

}  // namespace

std::string ToYaml(const Rule& rule) {
  std::string text = fmt::format("name: {}\n", YamlScalar(rule.name));
  if (!rule.match.empty()) text += fmt::format("match: {}\n", ToYaml(rule.match));
  if (!rule.per.empty()) {
    text += fmt::format("per: {}\n", ListOf(rule.per));
  }
  text += fmt::format("limits:{}", ToYaml(rule.limits, "  "));
  text += ToYaml(rule.overrides);
  if (rule.shadow) text += "mode: shadow\n";
  if (rule.missing == OnMissing::kDeny) {
    text += "missing: deny\n";
  } else if (!rule.per.empty()) {
    text += "missing: skip\n";
  }
  if (rule.on_store_failure != OnStoreFailure::kLocal) {
    text += fmt::format("on_store_failure: {}\n", ToString(rule.on_store_failure));
  }
  if (!rule.deny_cache) text += "deny_cache: false\n";
  return text;
}

}  // namespace sluice
