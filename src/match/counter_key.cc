#include "match/counter_key.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/hash.h"
#include "match/pattern_yaml.h"

namespace sluice {
namespace {

constexpr std::array<bool, 256> kEscaped = [] {
  std::array<bool, 256> escaped{};
  for (std::size_t byte = 0; byte <= ' '; ++byte) escaped[byte] = true;
  for (const unsigned char byte : {'%', '/', '{', '}', '#', '\x7F'}) escaped[byte] = true;
  return escaped;
}();

bool HasEarlierText(const Condition& a, const Condition& b) {
  return ToYaml(std::vector{a}) < ToYaml(std::vector{b});
}

void BringIntoOrder(Pattern& pattern) {
  for (Pattern& part : pattern.of) BringIntoOrder(part);
  if (pattern.kind != Pattern::Kind::kAnyOf) return;
  std::sort(pattern.of.begin(), pattern.of.end(), [](const Pattern& a, const Pattern& b) {
    return HasEarlierText({.attribute = "", .pattern = a}, {.attribute = "", .pattern = b});
  });
  pattern.of.erase(std::unique(pattern.of.begin(), pattern.of.end()), pattern.of.end());
}

}  // namespace

void AppendEscaped(std::string_view text, std::string& out) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (!kEscaped[byte]) {
      out += c;
      continue;
    }
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
}

std::string AttributeInKey(std::string_view name) {
  std::string key;
  for (const char& c : name) {
    if (c == '=') {
      key += "%3D";
    } else {
      AppendEscaped({&c, 1}, key);
    }
  }
  return key + "=";
}

std::string CounterTag(const RuleLimit& limit) {
  const std::string tag = CounterTag(limit.limit);
  return limit.name.empty() ? tag : fmt::format("{}.{}", tag, limit.name);
}

std::string RepeatedTag(const std::vector<RuleLimit>& limits) {
  std::set<std::string> tags;
  for (const RuleLimit& limit : limits) {
    const auto [tag, is_new] = tags.insert(CounterTag(limit));
    if (!is_new) return *tag;
  }
  return "";
}

std::string DigestOfMatch(std::vector<Condition> match) {
  for (Condition& condition : match) BringIntoOrder(condition.pattern);
  std::sort(match.begin(), match.end(), HasEarlierText);
  return Sha256Hex128(ToYaml(match));
}

void DigestIfLong(std::size_t start, std::string& out) {
  if (out.size() - start <= kMaxKeyValuesBytes) return;
  const std::string digest = Sha256Hex128(std::string_view(out).substr(start));
  out.resize(start);
  out += '#';
  out += digest;
}

}  // namespace sluice
