#include "match/matcher.h"

#include <re2/re2.h>

#include <algorithm>

#include <fmt/format.h>

namespace sluice {

using Kind = Pattern::Kind;

Result<Matcher> Matcher::Compile(const Pattern& pattern, bool is_address) {
  Matcher matcher{.kind = pattern.kind, .text = pattern.text};
  if (pattern.kind == Kind::kExact && is_address) {
    if (const auto address = IpAddress::Parse(pattern.text)) matcher.text = address->ToString();
  } else if (pattern.kind == Kind::kCidr) {
    auto network = IpNetwork::Parse(pattern.text);
    if (!network) return network.error();
    matcher.network = *network;
    matcher.text = network->ToString();
  } else if (pattern.kind == Kind::kRegex) {
    auto regex = CompileRegex(pattern.text);
    if (!regex) return regex.error();
    matcher.regex = *regex;
  } else if (pattern.kind == Kind::kNot && pattern.of.size() != 1) {
    return InvalidArgument("`not` takes exactly one pattern");
  }
  matcher.of.reserve(pattern.of.size());
  for (const Pattern& part : pattern.of) {
    auto compiled = Compile(part, is_address);
    if (!compiled) return compiled.error();
    matcher.of.push_back(std::move(*compiled));
  }
  return matcher;
}

bool Matcher::Matches(const AttributeValue* fact) const {
  // `not` and lists are tested first, because a `not` can hold for an absent attribute, even inside
  // a list.
  if (kind == Kind::kNot) return !of.front().Matches(fact);
  if (kind == Kind::kAnyOf) {
    return std::ranges::any_of(of, [&](const Matcher& part) { return part.Matches(fact); });
  }
  if (fact == nullptr || kind == Kind::kExists) return fact != nullptr;
  if (kind == Kind::kCidr) return fact->address && network.Contains(*fact->address);
  const std::string_view value = fact->text();
  if (kind == Kind::kExact) return value == text;
  if (kind == Kind::kPrefix) return value.starts_with(text);
  return re2::RE2::FullMatch({value.data(), value.size()}, *regex);
}

Result<std::shared_ptr<const re2::RE2>> CompileRegex(std::string_view text) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_dot_nl(true);
  auto regex = std::make_shared<re2::RE2>(re2::StringPiece(text.data(), text.size()), options);
  if (!regex->ok()) {
    return InvalidArgument(
        fmt::format("found \"{}\", which is not a regular expression ({}); allowed is RE2 syntax",
                    text, regex->error()));
  }
  return std::shared_ptr<const re2::RE2>(std::move(regex));
}

bool NeedsAddress(const Pattern& pattern) {
  return pattern.kind == Kind::kCidr ||
         std::any_of(pattern.of.begin(), pattern.of.end(), NeedsAddress);
}

}  // namespace sluice
