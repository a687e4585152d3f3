#include "match/rule_yaml.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '/' || c == '.' || c == '-' || c == '+';
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string DoubleQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (IsControl(c)) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string SingleQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += '\'';
    quoted += c;
  }
  return quoted + '\'';
}

// Bare where nobody could take it for anything else, else quoted.
std::string Scalar(std::string_view text) {
  const bool starts_plain = !text.empty() && IsPlain(text.front()) && text.front() != '-' &&
                            text.front() != '.' && text.front() != '+';
  if (starts_plain && std::all_of(text.begin(), text.end(), IsPlain) && text != "null" &&
      text != "Null" && text != "NULL") {
    return std::string(text);
  }
  if (std::any_of(text.begin(), text.end(), IsControl)) return DoubleQuoted(text);
  return SingleQuoted(text);
}

template <typename Items, typename Write>
std::string List(const Items& items, const Write& write) {
  std::vector<std::string> texts;
  std::transform(std::begin(items), std::end(items), std::back_inserter(texts), write);
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string ToYaml(const Pattern& pattern) {
  using Kind = Pattern::Kind;
  switch (pattern.kind) {
    case Kind::kExact:
      return Scalar(pattern.text);
    case Kind::kPrefix:
      return fmt::format("{{prefix: {}}}", Scalar(pattern.text));
    case Kind::kRegex:
      return fmt::format("{{regex: {}}}", Scalar(pattern.text));
    case Kind::kCidr:
      return fmt::format("{{cidr: {}}}", Scalar(pattern.text));
    case Kind::kExists:
      return "{exists: true}";
    case Kind::kAnyOf:
      return List(pattern.of, [](const Pattern& part) { return ToYaml(part); });
    case Kind::kNot:
      return fmt::format("{{not: {}}}", ToYaml(pattern.of.front()));
  }
  return "";
}

std::string ToYaml(const KeyPart& part) {
  if (!part.ipv4_prefix && !part.ipv6_prefix) return Scalar(part.attribute);
  std::string text = fmt::format("{{attribute: {}", Scalar(part.attribute));
  if (part.ipv4_prefix) text += fmt::format(", ipv4_prefix: {}", *part.ipv4_prefix);
  if (part.ipv6_prefix) text += fmt::format(", ipv6_prefix: {}", *part.ipv6_prefix);
  return text + "}";
}

// "/s", "/m", "/h" or "/d".
std::string PerUnit(Duration period) { return "/" + FormatDuration(period).substr(1); }

// The parameters of one limit that are not at their defaults.
struct Parameters {
  std::string operator()(const FixedWindow& limit) const {
    using Align = FixedWindow::Align;
    const bool is_month = limit.align == Align::kMonth;
    std::string text = fmt::format("limit: {}, window: {}", limit.limit,
                                   is_month ? "month" : FormatDuration(limit.window));
    if (limit.align == Align::kClock) text += ", align: clock";
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

// `limits` as the value of its key; a list has a line of its own for each limit.
std::string ToYaml(const Limits& limits, std::string_view indent) {
  if (limits.effect == Limits::Effect::kBlocked) return " blocked\n";
  if (limits.effect == Limits::Effect::kUnlimited) return " unlimited\n";
  std::string text = "\n";
  for (const Limit& limit : limits.limits) {
    text += fmt::format("{}- {{algorithm: {}, {}}}\n", indent, ToString(AlgorithmOf(limit)),
                        std::visit(Parameters{}, limit));
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
  std::string text = fmt::format("name: {}\n", Scalar(rule.name));
  if (!rule.match.empty()) text += fmt::format("match: {}\n", ToYaml(rule.match));
  if (!rule.per.empty()) {
    text +=
        fmt::format("per: {}\n", List(rule.per, [](const KeyPart& part) { return ToYaml(part); }));
  }
  text += fmt::format("limits:{}", ToYaml(rule.limits, "  "));
  text += ToYaml(rule.overrides);
  if (rule.shadow) text += "mode: shadow\n";
  if (rule.missing == OnMissing::kDeny) text += "missing: deny\n";
  if (rule.on_store_failure != OnStoreFailure::kLocal) {
    text += fmt::format("on_store_failure: {}\n", ToString(rule.on_store_failure));
  }
  if (!rule.deny_cache) text += "deny_cache: false\n";
  return text;
}

std::string ToYaml(const std::vector<Condition>& match) {
  std::vector<std::string> texts;
  for (const Condition& condition : match) {
    texts.push_back(fmt::format("{}: {}", Scalar(condition.attribute), ToYaml(condition.pattern)));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

}  // namespace sluice
