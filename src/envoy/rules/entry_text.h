// A list of entries as one text: "database=users,tier=gold". Used as a name of rules and counters,
// so different lists have different texts.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::envoy {

// A longer text of entries is replaced by '#' and a digest.
inline constexpr std::size_t kMaxEntriesBytes = 2048;

// AppendKey appends "key", AppendEntry "key=value", after a comma unless `out` is empty. Characters
// with a meaning in such a text are escaped by a backslash.
void AppendKey(std::string_view key, std::string& out);
void AppendEntry(std::string_view key, std::string_view value, std::string& out);

// The entries of such a text, keys and values alternating. A key without a value has the value "".
std::vector<std::string> SplitEntries(std::string_view text);

void DigestIfLong(std::string& entries);

}  // namespace sluice::envoy
