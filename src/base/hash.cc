#include "base/hash.h"

#include <openssl/sha.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice {

std::array<std::uint8_t, 16> Sha256Prefix128(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  std::array<std::uint8_t, 16> prefix;
  std::copy_n(digest.begin(), prefix.size(), prefix.begin());
  return prefix;
}

std::string Sha256Hex128(std::string_view bytes) {
  return fmt::format("{:02x}", fmt::join(Sha256Prefix128(bytes), ""));
}

}  // namespace sluice
