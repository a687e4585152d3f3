// Cryptographically secure random bytes.
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

// 128 bits from OpenSSL's generator. Thread-safe.
std::array<std::uint8_t, 16> RandomBytes();

}  // namespace sluice
