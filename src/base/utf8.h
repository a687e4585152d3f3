// UTF-8 validation.
#pragma once

#include <string_view>

namespace sluice {

// Whether `bytes` is well-formed UTF-8 (Unicode standard, table 3-7): no overlong forms, no
// surrogates, nothing beyond U+10FFFF. NUL is allowed.
bool IsValidUtf8(std::string_view bytes);

}  // namespace sluice
