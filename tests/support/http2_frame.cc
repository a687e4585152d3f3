#include "tests/support/http2_frame.h"

namespace sluice::test {
namespace {

constexpr std::size_t kHeaderSize = 9;

std::uint32_t ReadBigEndian(const std::string& bytes, std::size_t at, std::size_t size) {
  std::uint32_t number = 0;
  for (std::size_t i = at; i < at + size; ++i) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

}  // namespace

std::string BigEndian(std::uint32_t number, std::size_t size) {
  std::string bytes;
  while (size-- > 0) bytes += static_cast<char>(number >> (8 * size));
  return bytes;
}

std::string Http2Frame::Bytes() const {
  return BigEndian(static_cast<std::uint32_t>(payload.size()), 3) + type + flags +
         BigEndian(stream, 4) + payload;
}

std::optional<Http2Frame> Http2Frame::Take(std::string& heard) {
  if (heard.size() < kHeaderSize) return std::nullopt;
  const std::size_t size = ReadBigEndian(heard, 0, 3);
  if (heard.size() < kHeaderSize + size) return std::nullopt;
  Http2Frame frame{.type = heard[3],
                   .stream = ReadBigEndian(heard, 5, 4),
                   .payload = heard.substr(kHeaderSize, size),
                   .flags = heard[4]};
  heard.erase(0, kHeaderSize + size);
  return frame;
}

}  // namespace sluice::test
