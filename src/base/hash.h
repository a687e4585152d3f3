// Hashes: fast ones for tables and shards within this process, and SHA-256 for names that must not
// collide, such as names in Redis.
#pragma once

#include <array>
#include <concepts>
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

// XXH3 with 128 bits, so that accidental collisions are negligible, and with a random seed for each
// process. Never stored. Thread-safe.
Hash128 WideHash(std::string_view bytes);

// A key with its hash, for keys that are searched in several tables. Refers to the bytes of the
// key.
class HashedKey {
 public:
  HashedKey() = default;  // the empty key, with the hash 0
  template <std::convertible_to<std::string_view> Text>
  HashedKey(const Text& key)  // NOLINT(google-explicit-constructor): it stands for its text
      : text_(key), hash_(WideHash(text_)) {}

  operator std::string_view() const { return text_; }  // NOLINT(google-explicit-constructor)
  std::size_t size() const { return text_.size(); }
  std::size_t hash() const { return static_cast<std::size_t>(hash_.low); }
  const Hash128& wide_hash() const { return hash_; }

  template <std::convertible_to<std::string_view> Text>
  bool operator==(const Text& key) const {
    return text_ == std::string_view(key);
  }

 private:
  std::string_view text_;
  Hash128 hash_;
};

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
