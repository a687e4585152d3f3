#include "tests/rpc/raw_request.h"

#include <zlib.h>

#include <algorithm>

#include "tests/support/require.h"

namespace sluice::test {
namespace {

// An HPACK integer with a prefix of 7 bits. The bit before the prefix is 0 (no Huffman coding).
std::string Integer(std::size_t number) {
  constexpr std::size_t kPrefix = 127;
  if (number < kPrefix) return std::string(1, static_cast<char>(number));
  std::string bytes(1, static_cast<char>(kPrefix));
  for (number -= kPrefix; number >= 128; number /= 128) {
    bytes += static_cast<char>(number % 128 + 128);
  }
  return bytes + static_cast<char>(number);
}

std::string Compress(std::string_view bytes, int window_bits) {
  z_stream stream{};
  Require(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  Require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

RequestHeaders::RequestHeaders(std::string_view path)
    : fields_{{":method", "POST"},          {":scheme", "http"},
              {":path", std::string(path)}, {":authority", "localhost"},
              {"te", "trailers"},           {"content-type", "application/grpc"}} {}

RequestHeaders& RequestHeaders::With(std::string_view name, std::string_view value) {
  for (auto& [old, of] : fields_) {
    if (old == name) {
      of = value;
      return *this;
    }
  }
  return Add(name, value);
}

RequestHeaders& RequestHeaders::Add(std::string_view name, std::string_view value) {
  fields_.emplace_back(name, value);
  return *this;
}

RequestHeaders& RequestHeaders::AddFirst(std::string_view name, std::string_view value) {
  fields_.emplace(fields_.begin(), name, value);
  return *this;
}

RequestHeaders& RequestHeaders::Without(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return field.first == name; });
  return *this;
}

std::string RequestHeaders::Block() const {
  std::string block;
  for (const auto& [name, value] : fields_) block += Literal(name, value);
  return block;
}

std::string RequestHeaders::Frame(char flags, std::uint32_t stream) const {
  return FrameOf(Http2Frame::kHeaders, Block(), static_cast<char>(flags | Http2Frame::kEndHeaders),
                 stream);
}

std::string RequestHeaders::Frames(std::size_t piece, char flags, std::uint32_t stream) const {
  const std::string block = Block();
  std::string frames;
  for (std::size_t at = 0; at < block.size(); at += piece) {
    const bool first = at == 0;
    const bool last = at + piece >= block.size();
    frames += FrameOf(
        first ? Http2Frame::kHeaders : Http2Frame::kContinuation, block.substr(at, piece),
        static_cast<char>((first ? flags : 0) | (last ? Http2Frame::kEndHeaders : 0)), stream);
  }
  return frames;
}

std::string Literal(std::string_view name, std::string_view value) {
  return std::string(1, '\0') + Integer(name.size()) + std::string(name) + Integer(value.size()) +
         std::string(value);
}

std::string Message(std::string_view bytes, char flag) {
  return flag + BigEndian(static_cast<std::uint32_t>(bytes.size()), 4) + std::string(bytes);
}

std::string FrameOf(char type, std::string payload, char flags, std::uint32_t stream) {
  return Http2Frame{.type = type, .stream = stream, .payload = std::move(payload), .flags = flags}
      .Bytes();
}

std::string Data(std::string payload, char flags, std::uint32_t stream) {
  return FrameOf(Http2Frame::kData, std::move(payload), flags, stream);
}

std::string Reset(std::uint32_t code, std::uint32_t stream) {
  return FrameOf(Http2Frame::kResetStream, BigEndian(code, 4), 0, stream);
}

std::string WindowUpdate(std::uint32_t increment, std::uint32_t stream) {
  return FrameOf(Http2Frame::kWindowUpdate, BigEndian(increment, 4), 0, stream);
}

std::string Ping(std::string_view payload) {
  return FrameOf(Http2Frame::kPing, std::string(payload));
}

std::string Setting(std::uint16_t id, std::uint32_t value) {
  return FrameOf(Http2Frame::kSettings, BigEndian(id, 2) + BigEndian(value, 4));
}

std::string UnaryRequest(std::string_view path, std::string_view message, std::uint32_t stream) {
  return RequestHeaders(path).Frame(0, stream) + Data(Message(message), kEnd, stream);
}

std::string Gzip(std::string_view bytes) { return Compress(bytes, 15 + 16); }

std::string Deflate(std::string_view bytes) { return Compress(bytes, 15); }

}  // namespace sluice::test
