// The names of counters in the store: `sluice:{<domain>/<rule>/<values>}:`, followed by the limit's
// tag. The braces are Redis Cluster's hash tag, so all limits of one rule and subject share a slot.
// No two subjects of a rule share a key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "match/rule.h"

namespace sluice {

// A list of values longer than this is replaced by `#` and a digest.
inline constexpr std::size_t kMaxKeyValuesBytes = 200;

// Appends `text` with '%', '/', '{', '}', '#', spaces, control bytes and DEL percent-escaped.
void AppendEscaped(std::string_view text, std::string& out);

// Names the counters of an override with `counter: own`, in letters and digits. Equal matches have
// the same name, independent of position and order.
std::string DigestOfMatch(std::vector<Condition> match);

// Replaces the part of `out` from `start` by a digest if it is longer than kMaxKeyValuesBytes.
void DigestIfLong(std::size_t start, std::string& out);

}  // namespace sluice
