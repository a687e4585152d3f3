#include "match/counter_key.h"

#include <array>

#include "base/hash.h"

namespace sluice {
namespace {

constexpr std::array<bool, 256> kEscaped = [] {
  std::array<bool, 256> escaped{};
  for (std::size_t byte = 0; byte <= ' '; ++byte) escaped[byte] = true;
  for (const unsigned char byte : {'%', '/', '{', '}', '#', '\x7F'}) escaped[byte] = true;
  return escaped;
}();

}  // namespace

void AppendEscaped(std::string_view text, std::string& out) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (!kEscaped[byte]) {
      out += c;
      continue;
    }
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
}

void DigestIfLong(std::size_t start, std::string& out) {
  if (out.size() - start <= kMaxKeyValuesBytes) return;
  const std::string digest = Sha256Prefix128(std::string_view(out).substr(start));
  out.resize(start);
  out += '#';
  out += digest;
}

}  // namespace sluice
