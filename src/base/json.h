// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// With quotes, and all escapes that JSON requires, so it never contains a line break. Bytes that
// are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace sluice
