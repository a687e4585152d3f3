// Secrets: passwords, tokens.
//
// Thread-safe.
#pragma once

#include <string_view>

namespace sluice {

// Whether `given` is `secret`, in a time that tells nothing about how much of it is right.
bool IsSecret(std::string_view given, std::string_view secret);

}  // namespace sluice
