#include "base/hash.h"

#include <openssl/sha.h>

#include <array>

#include <fmt/format.h>

namespace sluice {

std::string Sha256Prefix128(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  std::string hex;
  for (int i = 0; i < 16; ++i) fmt::format_to(std::back_inserter(hex), "{:02x}", digest[i]);
  return hex;
}

}  // namespace sluice
