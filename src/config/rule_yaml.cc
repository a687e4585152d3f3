#include "config/rule_yaml.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "config/rule_parser.h"
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
  for (const KeyPart& part : parts) texts.push_back(ToYaml(part));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// Writes parameters that differ from their defaults: ", limit: 10, window: 1m".
class ParameterWriter final : public Parameters {
 public:
  void Number(std::string_view key, std::int64_t& value, const Range&,
              std::optional<std::int64_t> fallback) override {
    if (value != fallback) Append(key, value);
  }
  void Length(std::string_view key, Duration& value, std::optional<Duration>) override {
    Append(key, FormatDuration(value));
  }
  void LengthIfAny(std::string_view key, Duration& value, Duration, Duration) override {
    if (value != Duration::zero()) Append(key, FormatDuration(value));
  }
  void LengthOrMonth(std::string_view key, Duration& value, bool& is_month) override {
    Append(key, is_month ? "month" : FormatDuration(value));
  }
  void Rate(std::string_view key, std::int64_t& count, Duration& period, std::int64_t) override {
    Append(key, fmt::format("{}{}", count, FormatPeriod(period)));
  }
  void Percent(std::string_view key, std::int64_t& value, const Range&,
               std::int64_t fallback) override {
    if (value != fallback) Append(key, fmt::format("{}%", value));
  }
  void Group(std::string_view key, bool& is_given,
             const std::function<void(Parameters&)>& describe) override {
    if (!is_given) return;
    ParameterWriter inner;
    describe(inner);
    Append(key, fmt::format("{{{}}}", std::string_view(inner.text_).substr(2)));
  }
  void UtcOffset(std::string_view key, Duration& value) override {
    if (value != Duration::zero()) Append(key, fmt::format("\"{}\"", FormatUtcOffset(value)));
  }

  const std::string& text() const { return text_; }

 private:
  void Word(std::string_view key, std::size_t& index, std::size_t fallback,
            const std::vector<std::string_view>& words) override {
    if (index != fallback) Append(key, words[index]);
  }
  template <typename T>
  void Append(std::string_view key, const T& value) {
    text_ += fmt::format(", {}: {}", key, value);
  }

  std::string text_;
};

// The key `counts`, which is absent by default.
std::string CountsOf(const RuleLimit& limit) {
  const Counts& counts = limit.counts;
  if (counts.empty()) return "";
  const bool is_sum = std::ranges::all_of(counts, [](const auto& it) { return it.weight == 1; });
  std::vector<std::string> texts;
  for (const CountedAmount& it : counts) {
    texts.push_back(YamlScalar(it.name) + (is_sum ? "" : fmt::format(": {}", it.weight)));
  }
  const std::string list = fmt::format("{}", fmt::join(texts, ", "));
  if (!is_sum) return fmt::format(", counts: {{{}}}", list);
  return ", counts: " + (counts.size() == 1 ? list : "[" + list + "]");
}

std::string ToYaml(const RuleLimit& limit) {
  const std::string name = limit.name.empty() ? "" : ", name: " + YamlScalar(limit.name);
  Limit described = limit.limit;
  ParameterWriter parameters;
  Describe(described, parameters);
  return fmt::format("{{algorithm: {}{}{}{}}}", NameOf(described), name, CountsOf(limit),
                     parameters.text());
}

// The value of the key `limits`; a list has one line per limit.
std::string ToYaml(const Limits& limits, std::string_view indent) {
  if (limits.effect == Limits::Effect::kBlocked) return " blocked\n";
  if (limits.effect == Limits::Effect::kUnlimited) return " unlimited\n";
  std::string text = "\n";
  for (const RuleLimit& limit : limits.limits) {
    text += fmt::format("{}- {}\n", indent, ToYaml(limit));
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
    text += fmt::format("on_store_failure: {}\n",
                        kOnStoreFailures[static_cast<std::size_t>(rule.on_store_failure)]);
  }
  if (!rule.deny_cache) text += "deny_cache: false\n";
  if (rule.max_lease_ttl != kDefaultMaxLeaseTtl) {
    text += fmt::format("max_lease_ttl: {}\n", FormatDuration(rule.max_lease_ttl));
  }
  return text;
}

std::string ToYamlItem(const Rule& rule) {
  std::string item = "  - " + ToYaml(rule);
  item.pop_back();
  for (std::size_t at = 0; (at = item.find('\n', at)) != item.npos; at += 5) {
    item.insert(at + 1, "    ");
  }
  return item;
}

std::string ToYaml(const Domain& domain) {
  std::string text = fmt::format("domain: {}\n", YamlScalar(domain.name));
  if (domain.unmatched) {
    text += domain.unmatched == Unmatched::kAllow ? "unmatched: allow\n" : "unmatched: deny\n";
  }
  if (!domain.colocate.empty()) text += fmt::format("colocate: {}\n", YamlScalar(domain.colocate));
  text += "rules:\n";
  for (const Rule& rule : domain.rules) text += ToYamlItem(rule) + "\n";
  return text;
}

}  // namespace sluice
