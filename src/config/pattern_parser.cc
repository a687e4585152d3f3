#include "config/pattern_parser.h"

#include <fmt/format.h>

#include "base/ip_address.h"
#include "match/matcher.h"

namespace sluice {
namespace {

constexpr std::string_view kForms =
    "is a text, a list of patterns, {prefix: …}, {regex: …}, {cidr: …}, {exists: true} or "
    "{not: …}";

Pattern ParsePattern(const ConfigValue& value);

Pattern ParsePrefix(const ConfigValue& value) {
  return {Pattern::Kind::kPrefix, value.NonEmptyText("is a text that is not empty"), {}};
}

Pattern ParseRegex(const ConfigValue& value) {
  const auto text = value.Text("is a regular expression in RE2's syntax");
  if (text) {
    if (auto regex = CompileRegex(*text); !regex) value.Report(regex.error().message);
  }
  return {Pattern::Kind::kRegex, std::string(text.value_or("")), {}};
}

Pattern ParseCidr(const ConfigValue& value) {
  const auto network =
      value.Parsed(IpNetwork::Parse, "is a network such as 10.0.0.0/8 or 2001:db8::/32");
  return {Pattern::Kind::kCidr, network ? network->ToString() : "", {}};
}

Pattern ParseExists(const ConfigValue& value) {
  const auto text = value.Text("is true");
  if (text && *text != "true") {
    value.ReportFound("is true; for an attribute that must be absent, write {not: {exists: true}}");
  }
  return {Pattern::Kind::kExists, "", {}};
}

Pattern ParseMapForm(const ConfigValue& value) {
  const ConfigMap fields(value, {"prefix", "regex", "cidr", "exists", "not"});
  if (value.node().items.size() != 2) {
    value.Report(
        fmt::format("found a map of {} keys; allowed is one of prefix, regex, cidr, "
                    "exists, not (for several patterns, use a list)",
                    value.node().items.size() / 2));
  }
  Pattern pattern;
  if (const auto prefix = fields.Find("prefix")) pattern = ParsePrefix(*prefix);
  if (const auto regex = fields.Find("regex")) pattern = ParseRegex(*regex);
  if (const auto cidr = fields.Find("cidr")) pattern = ParseCidr(*cidr);
  if (const auto exists = fields.Find("exists")) pattern = ParseExists(*exists);
  if (const auto other = fields.Find("not")) {
    pattern = {Pattern::Kind::kNot, "", {ParsePattern(*other)}};
  }
  return pattern;
}

Pattern ParseAnyOf(const ConfigValue& value) {
  Pattern pattern{Pattern::Kind::kAnyOf, "", {}};
  if (value.node().items.empty()) {
    value.Report("found an empty list, which matches nothing; allowed is at least one pattern");
  }
  for (const ConfigValue& item : value.Items(kForms)) pattern.of.push_back(ParsePattern(item));
  return pattern;
}

Pattern ParseExact(const ConfigValue& value) {
  const std::string& text = value.node().text;
  if (const auto star = text.find('*'); star != std::string::npos) {
    const bool is_prefix = star > 0 && star + 1 == text.size();
    const std::string instead = is_prefix     ? fmt::format("{{prefix: {}}}", text.substr(0, star))
                                : text == "*" ? "{exists: true}"
                                              : "{regex: …}";
    value.Warn(fmt::format("\"{}\" is compared literally, including the *; for a pattern, write {}",
                           text, instead));
  }
  if (IpNetwork::Parse(text)) {
    value.Warn(
        fmt::format("\"{0}\" is compared literally; for a network, write {{cidr: {0}}}", text));
  }
  return {Pattern::Kind::kExact, text, {}};
}

Pattern ParsePattern(const ConfigValue& value) {
  switch (value.node().kind) {
    case YamlNode::Kind::kScalar:
      return ParseExact(value);
    case YamlNode::Kind::kSequence:
      return ParseAnyOf(value);
    case YamlNode::Kind::kMap:
      return ParseMapForm(value);
    case YamlNode::Kind::kNull:
    case YamlNode::Kind::kRefused:
      break;
  }
  value.ReportFound(kForms);
  return {};
}

}  // namespace

std::vector<Condition> ParseMatch(const ConfigValue& value) {
  std::vector<Condition> conditions;
  if (value.node().kind != YamlNode::Kind::kMap) {
    value.ReportFound("is a map of attributes to patterns");
    return conditions;
  }
  ForEachPair(value, [&](const YamlNode& key, const ConfigValue& pattern) {
    if (key.text.empty() || key.text.size() > 255) {
      value.At(key.text, key).ReportFound("is a name of 1 to 255 bytes");
    }
    conditions.push_back({key.text, ParsePattern(pattern)});
  });
  return conditions;
}

}  // namespace sluice
