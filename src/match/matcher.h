// A Pattern made ready to be asked: networks parsed, expressions compiled, addresses canonical.
//
// Thread-safe: immutable after Compile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "match/request_facts.h"
#include "match/rule.h"

namespace re2 {
class RE2;
}

namespace sluice {

struct Matcher {
  Pattern::Kind kind = Pattern::Kind::kExists;
  std::string text;                       // kExact, kPrefix, kRegex; of kCidr, canonical
  IpNetwork network;                      // kCidr
  std::shared_ptr<const re2::RE2> regex;  // kRegex
  std::vector<Matcher> of;                // kAnyOf, kNot

  // With `is_address`, an exact text that is an IP address is brought to its canonical form, as
  // the values it will be compared to are. Fails on a bad expression or network, saying what was
  // found and what is allowed.
  static Result<Matcher> Compile(const Pattern& pattern, bool is_address);

  // `fact` is null if the request lacks the attribute.
  bool Matches(const Fact* fact) const;
};

// An expression as patterns mean it: RE2's syntax on UTF-8, `.` also matches a newline (or a value
// could slip past a rule by holding one).
Result<std::shared_ptr<const re2::RE2>> CompileRegex(std::string_view text);

// Whether `pattern` asks for the value to be an IP address.
bool NeedsAddress(const Pattern& pattern);

}  // namespace sluice
