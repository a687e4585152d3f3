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

// A list of attributes and values longer than this is replaced by `#` and a digest.
inline constexpr std::size_t kMaxKeyValuesBytes = 200;

// Appends `text` with '%', '/', '{', '}', '#', spaces, control bytes and DEL percent-escaped.
void AppendEscaped(std::string_view text, std::string& out);

// `name`, escaped as by AppendEscaped and with '=' escaped, too; then "=".
std::string AttributeInKey(std::string_view name);

// The limit's part of a key: the tag of its algorithm, its name, and the names of what it counts,
// unless that is the cost. The weights are not part of the key, so if weights (such as prices)
// change, the counter continues.
std::string CounterTag(const RuleLimit& limit);

// The part of a counter's key that names the caller: "user=42" in
// "sluice:{shop/per-user/user=42}:fixed_window:1m" and, if the domain's counters are colocated, in
// "sluice:{shop/user=42}per-user/user=42:fixed_window:1m".
std::string_view SubjectOf(std::string_view key);

// A tag that two of the limits share. Empty if all tags differ.
std::string RepeatedTag(const std::vector<RuleLimit>& limits);

// The name of the counters of an override with `counter: own`, in letters and digits. It depends
// only on the conditions in `match`, not on their order or on the order of the overrides.
std::string DigestOfMatch(std::vector<Condition> match);

// Replaces the part of `out` from `start` by a digest if it is longer than kMaxKeyValuesBytes.
void DigestIfLong(std::size_t start, std::string& out);

}  // namespace sluice
