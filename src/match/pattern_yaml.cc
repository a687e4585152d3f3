#include "match/pattern_yaml.h"

#include <algorithm>
#include <iterator>

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
  if (std::any_of(text.begin(), text.end(), IsControl)) return DoubleQuoted(text);
  return SingleQuoted(text);
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
