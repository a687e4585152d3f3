// Percent-encoding of URLs (RFC 3986).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// Returns nullopt if a % is not followed by two hexadecimal digits.
std::optional<std::string> PercentDecode(std::string_view text);

}  // namespace sluice
