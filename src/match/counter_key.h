// The names of counters in the store: `sluice:{<domain>/<rule>/<values>}:`, to which the limit's
// tag is appended. What stands in braces is Redis Cluster's hash tag, so all limits of one rule
// and subject share a slot. No two subjects of a rule share a key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "match/rule.h"

namespace sluice {

// A list of values beyond this many bytes is replaced by `#` and a digest.
inline constexpr std::size_t kMaxKeyValuesBytes = 200;

// Appends `text` with '%', '/', '{', '}', '#', spaces, control bytes and DEL percent-escaped.
void AppendEscaped(std::string_view text, std::string& out);

// Names the counters of an override with `counter: own`, in letters and digits: two that match the
// same have one name, wherever they stand and in whatever order they say it.
std::string DigestOfMatch(std::vector<Condition> match);

// Shortens what `out` holds from `start` on, if it is longer than kMaxKeyValuesBytes.
void DigestIfLong(std::size_t start, std::string& out);

}  // namespace sluice
