#include "match/counter_key.h"

#include <algorithm>
#include <array>

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
