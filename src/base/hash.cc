#include "base/hash.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice {

// Two lanes of wyhash's step, each with different secrets. A step XORs the input with the lane,
// multiplies, and folds the two halves of the product.
Hash128 KeyedHash(std::string_view bytes, const Hash128& secret) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    const Hash128 product = MultiplyWide(a, b);
    return product.low ^ product.high;
  };
  Hash128 hash{secret.low ^ bytes.size(), secret.high + bytes.size()};
  const std::uint64_t third = fold(secret.low ^ kOdd, secret.high);
  std::array<std::uint64_t, 2> words;
  const auto mix = [&] {
    hash.low = fold(words[0] ^ secret.high, words[1] ^ hash.low);
    hash.high = fold(words[0] ^ hash.high, words[1] ^ third);
  };
  for (; bytes.size() >= sizeof(words); bytes.remove_prefix(sizeof(words))) {
    std::memcpy(words.data(), bytes.data(), sizeof(words));
    mix();
  }
  words = {};
  std::memcpy(words.data(), bytes.data(), bytes.size());
  mix();
  return {fold(hash.low ^ third, kOdd ^ hash.high), fold(hash.high ^ secret.low, kOdd + hash.low)};
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
