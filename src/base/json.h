// Text as JSON writes it.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// With quotes, and everything escaped that JSON demands, so it never holds a line break. What is no
// UTF-8 becomes U+FFFD, byte by byte.
std::string JsonString(std::string_view text);

}  // namespace sluice
