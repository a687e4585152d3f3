#include "base/hash.h"

#define XXH_INLINE_ALL

#include <openssl/sha.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/random.h"

namespace sluice {

namespace {

std::uint64_t Seed() {
  static const auto seed = std::bit_cast<Hash128>(RandomBytes()).low;
  return seed;
}

}  // namespace

std::size_t Hash(std::string_view bytes) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), Seed());
}

Hash128 WideHash(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), Seed());
  return {hash.low64, hash.high64};
}

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
