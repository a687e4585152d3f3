#include "match/counter_key.h"

#include <algorithm>
#include <array>
#include <iterator>
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

// Like AppendEscaped, but also escapes `separators`.
void AppendEscapedWith(std::string_view separators, std::string_view text, std::string& out) {
  for (std::size_t end = 0; (end = text.find_first_of(separators)) != text.npos;) {
    AppendEscaped(text.substr(0, end), out);
    fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<int>(text[end]));
    text.remove_prefix(end + 1);
  }
  AppendEscaped(text, out);
}

// The position in `key` at which the limit's tag (such as ":fixed_window:1m") begins.
std::size_t TagOf(std::string_view key) {
  static const std::vector<std::string> tags = [] {
    std::vector<std::string> all;
    for (const Limit& limit : EveryAlgorithm::All())
      all.push_back(fmt::format(":{}", NameOf(limit)));
    return all;
  }();
  std::size_t at = 0;
  for (const std::string& tag : tags) {
    if (const auto found = key.rfind(tag); found != key.npos) at = std::max(at, found);
  }
  return at;
}

std::string_view After(char mark, std::string_view text) {
  return text.substr(std::min(text.size(), text.find(mark)) + (text.find(mark) != text.npos));
}

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
  const auto is_escaped = [](char c) { return kEscaped[static_cast<unsigned char>(c)]; };
  while (true) {
    const auto escaped = std::ranges::find_if(text, is_escaped);
    out.append(text.begin(), escaped);
    if (escaped == text.end()) return;
    const auto byte = static_cast<unsigned char>(*escaped);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
    text = {escaped + 1, text.end()};
  }
}

std::string AttributeInKey(std::string_view name) {
  std::string key;
  AppendEscapedWith("=", name, key);
  return key + "=";
}

std::string CounterTag(const RuleLimit& limit) {
  std::string tag = CounterTag(limit.limit);
  if (!limit.name.empty()) tag.append(".").append(limit.name);
  const bool is_cost = limit.counts.size() == 1 && limit.counts[0].name == CountedAmount::kCost;
  if (limit.counts.empty() || is_cost) return tag;
  const std::size_t start = tag.size() + 1;
  for (const CountedAmount& counted : limit.counts) {
    tag += &counted == &limit.counts.front() ? '=' : ',';
    AppendEscapedWith(",:", counted.name, tag);
  }
  DigestIfLong(start, tag);
  return tag;
}

std::string_view SubjectOf(std::string_view key) {
  std::string_view rest = key.substr(0, TagOf(key));
  const bool colocated = !rest.ends_with('}');
  if (!colocated) rest.remove_suffix(1);
  return After('/', After(colocated ? '}' : '/', rest));
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
