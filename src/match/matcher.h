// A compiled Pattern: networks are parsed, expressions are compiled, and addresses are in canonical
// form.
//
// Thread-safe: immutable after Compile.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "match/request_attributes.h"
#include "match/rule.h"

namespace re2 {
class RE2;
}

namespace sluice {

struct Matcher {
  Pattern::Kind kind = Pattern::Kind::kExists;
  std::string text;                       // kExact, kPrefix, kRegex; kCidr: canonical
  IpNetwork network;                      // kCidr
  std::shared_ptr<const re2::RE2> regex;  // kRegex
  std::vector<Matcher> of;                // kAnyOf, kNot

  // If `is_address`, an exact text that is an IP address is converted to its canonical form, like
  // the values that it is compared with. Fails on a bad expression or network. The error quotes the
  // text and says what is allowed.
  static Result<Matcher> Compile(const Pattern& pattern, bool is_address);

  // `fact` is null if the request lacks the attribute.
  bool Matches(const AttributeValue* fact) const;
};

// Compiles an expression in RE2's syntax, for values in UTF-8. `.` also matches a newline;
// otherwise a value with a newline could evade a rule.
Result<std::shared_ptr<const re2::RE2>> CompileRegex(std::string_view text);

// Whether `pattern` compares the value as an IP address.
bool NeedsAddress(const Pattern& pattern);

}  // namespace sluice
