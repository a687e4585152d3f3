#include "store/redis/slot.h"

#include <array>

namespace sluice::redis {
namespace {

// CRC-16/XMODEM, as in the specification of Redis Cluster.
constexpr auto kCrcOfByte = [] {
  std::array<std::uint16_t, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    auto crc = static_cast<std::uint16_t>(byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<std::uint16_t>((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    table[byte] = crc;
  }
  return table;
}();

}  // namespace

std::string_view HashedPart(std::string_view key) {
  const auto open = key.find('{');
  if (open == std::string_view::npos) return key;
  const auto close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

std::uint16_t SlotOf(std::string_view key) {
  std::uint16_t crc = 0;
  for (const char c : HashedPart(key)) {
    const auto byte = static_cast<std::uint8_t>(c);
    crc = static_cast<std::uint16_t>((crc << 8) ^ kCrcOfByte[(crc >> 8) ^ byte]);
  }
  return crc % kSlots;
}

}  // namespace sluice::redis
