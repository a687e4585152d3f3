// Whether bytes are text.
#pragma once

#include <string_view>

namespace sluice {

// Whether `bytes` is well-formed UTF-8 as the Unicode standard has it (table 3-7): no overlong
// forms, no surrogates, nothing beyond U+10FFFF. NUL is a character like any other.
bool IsValidUtf8(std::string_view bytes);

}  // namespace sluice
