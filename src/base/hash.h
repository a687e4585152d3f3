// Hashes: fast ones for tables and shards within this process, and SHA-256 for names that must not
// collide, such as names in Redis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// For tables with untrusted keys: XXH3 with a random seed for each process, so that callers cannot
// choose keys that collide. Never stored. Thread-safe.
std::size_t Hash(std::string_view bytes);

inline std::size_t CombineHash(std::size_t a, std::size_t b) {
  return a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2));
}

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  bool operator==(const Hash128&) const = default;
};

// The 128-bit product.
inline Hash128 MultiplyWide(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return {static_cast<std::uint64_t>(product), static_cast<std::uint64_t>(product >> 64)};
}

// XXH3 with 128 bits, so that accidental collisions are negligible.
Hash128 KeyedHash(std::string_view bytes, std::uint64_t secret);

// The first 128 bits of the SHA-256 of `bytes`.
std::array<std::uint8_t, 16> Sha256Prefix128(std::string_view bytes);

// The same, as 32 lower-case hexadecimal digits.
std::string Sha256Hex128(std::string_view bytes);

// For unordered containers of std::string that are searched by std::string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view bytes) const { return Hash(bytes); }
};

}  // namespace sluice
