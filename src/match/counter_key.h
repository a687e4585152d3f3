// The names of counters in the store: `sluice:{<domain>/<rule>/<attribute>=<value>/…}:`, followed
// by the limit's tag. The braces are Redis Cluster's hash tag, so all limits of one rule and
// subject share a slot. Names do not depend on the order of rules, limits or attributes, and no two
// subjects share a key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "match/rule.h"

namespace sluice {

// The maximum length of three parts of a key: the list of attributes and values, the list of
// amounts, and the value in the hash tag. A longer part is replaced by `#` and a digest.
inline constexpr std::size_t kMaxKeyValuesBytes = 200;

// Appends `text` with '%', '/', '{', '}', '#', spaces, control bytes and DEL percent-escaped.
void AppendEscaped(std::string_view text, std::string& out);

// `name` and "=". In `name`, '=' and the characters that AppendEscaped escapes are escaped.
std::string AttributeInKey(std::string_view name);

// The limit's part of a key: the algorithm's tag, the limit's name, and the names of the amounts
// that the limit counts, unless it counts only the cost. The weights are not part of the key, so
// the counter continues when weights (such as prices) change.
std::string CounterTag(const RuleLimit& limit);

// The part of a counter's key with the attributes and values of `per`: "user=42" in
// "sluice:{shop/per-user/user=42}:fixed_window:1m" and, if the domain's counters are colocated, in
// "sluice:{shop/user=42}per-user/user=42:fixed_window:1m".
std::string_view SubjectOf(std::string_view key);

// A tag that two of the limits share. Empty if all tags differ.
std::string RepeatedTag(const std::vector<RuleLimit>& limits);

// The part of a key that identifies an override with `counter: own`, in letters and digits. Depends
// only on the conditions in `match`, not on their order or on the order of the overrides.
std::string DigestOfMatch(std::vector<Condition> match);

// If the part of `out` from `start` on is longer than kMaxKeyValuesBytes, replaces it by `#` and a
// digest.
void DigestIfLong(std::size_t start, std::string& out);

}  // namespace sluice
