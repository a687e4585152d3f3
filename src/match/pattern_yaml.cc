#include "match/pattern_yaml.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '/' || c == '.' || c == '-' || c == '+';
}

// How YAML writes a character that it allows only as an escape.
struct Escape {
  std::size_t bytes = 0;  // of the character in UTF-8; 0: needs no escape
  std::string text;
};

// The escape of the character at the start of `text`: of control characters, of other characters
// that YAML reads as the end of a line, and of those that it refuses.
Escape EscapeOf(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {{"\xe2\x80\xa8", "\\u2028"},
                                                                       {"\xe2\x80\xa9", "\\u2029"},
                                                                       {"\xef\xbb\xbf", "\\ufeff"},
                                                                       {"\xef\xbf\xbe", "\\ufffe"},
                                                                       {"\xef\xbf\xbf", "\\uffff"}};
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7f) return {1, fmt::format("\\x{:02x}", first)};
  if (first == 0xc2 && text.size() > 1) {  // U+0080 to U+00BF
    const auto second = static_cast<unsigned char>(text[1]);
    if (second < 0xa0) return {2, fmt::format("\\x{:02x}", second)};
  }
  for (const auto& [character, escape] : kOthers) {
    if (text.starts_with(character)) return {character.size(), std::string(escape)};
  }
  return {};
}

bool NeedsEscape(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(1)) {
    if (EscapeOf(text).bytes > 0) return true;
  }
  return false;
}

std::string DoubleQuoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const Escape escape = EscapeOf(text);
    if (escape.bytes > 0) {
      quoted += escape.text;
    } else {
      if (text[0] == '"' || text[0] == '\\') quoted += '\\';
      quoted += text[0];
    }
    text.remove_prefix(std::max<std::size_t>(1, escape.bytes));
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

std::string ToYaml(const Pattern& pattern) {
  using Kind = Pattern::Kind;
  std::vector<std::string> parts;
  switch (pattern.kind) {
    case Kind::kExact:
      return YamlScalar(pattern.text);
    case Kind::kPrefix:
      return fmt::format("{{prefix: {}}}", YamlScalar(pattern.text));
    case Kind::kRegex:
      return fmt::format("{{regex: {}}}", YamlScalar(pattern.text));
    case Kind::kCidr:
      return fmt::format("{{cidr: {}}}", YamlScalar(pattern.text));
    case Kind::kExists:
      return "{exists: true}";
    case Kind::kAnyOf:
      std::transform(pattern.of.begin(), pattern.of.end(), std::back_inserter(parts), ToYaml);
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case Kind::kNot:
      return fmt::format("{{not: {}}}", ToYaml(pattern.of.front()));
  }
  return "";
}

}  // namespace

std::string YamlScalar(std::string_view text) {
  const bool starts_plain = !text.empty() && IsPlain(text.front()) && text.front() != '-' &&
                            text.front() != '.' && text.front() != '+';
  if (starts_plain && std::all_of(text.begin(), text.end(), IsPlain) && text != "null" &&
      text != "Null" && text != "NULL") {
    return std::string(text);
  }
  return NeedsEscape(text) ? DoubleQuoted(text) : SingleQuoted(text);
}

std::string ToYaml(const std::vector<Condition>& match) {
  std::vector<std::string> texts;
  for (const Condition& condition : match) {
    texts.push_back(
        fmt::format("{}: {}", YamlScalar(condition.attribute), ToYaml(condition.pattern)));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

}  // namespace sluice
