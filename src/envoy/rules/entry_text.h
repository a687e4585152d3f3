// Entries as one text: "database=users,tier=gold". Names rules and counters, so no two lists of
// entries have the same.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::envoy {

// A longer text of entries is replaced by '#' and a digest.
inline constexpr std::size_t kMaxEntriesBytes = 2048;

// Appends "key" or, with the second, "key=value"; behind a comma unless `out` is empty. What has a
// meaning in such a text is escaped by a backslash.
void AppendKey(std::string_view key, std::string& out);
void AppendEntry(std::string_view key, std::string_view value, std::string& out);

// The entries of such a text, keys and values alternating; a key alone has the value "".
std::vector<std::string> SplitEntries(std::string_view text);

void DigestIfLong(std::string& entries);

}  // namespace sluice::envoy
