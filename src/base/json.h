// JSON string encoding.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Returns `text` as a JSON string with quotes and escapes, so without line breaks. Invalid UTF-8
// becomes U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace sluice
