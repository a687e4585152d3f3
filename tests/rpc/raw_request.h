// Valid and invalid requests of gRPC over HTTP/2 as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/http2_frame.h"

namespace sluice::test {

inline constexpr char kEnd = Http2Frame::kEndStream;

// The header fields of a request. Initially valid.
class RequestHeaders {
 public:
  explicit RequestHeaders(std::string_view path);

  // Replaces a field in place, or adds it.
  RequestHeaders& With(std::string_view name, std::string_view value);
  // Add adds a field at the end, AddFirst at the beginning.
  RequestHeaders& Add(std::string_view name, std::string_view value);
  RequestHeaders& AddFirst(std::string_view name, std::string_view value);
  RequestHeaders& Without(std::string_view name);

  // The fields as HPACK literals, without indexing or Huffman coding.
  std::string Block() const;

  // One HEADERS frame.
  std::string Frame(char flags = 0, std::uint32_t stream = 1) const;
  // A HEADERS frame and CONTINUATIONs, each with at most `piece` bytes.
  std::string Frames(std::size_t piece, char flags = 0, std::uint32_t stream = 1) const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// The HPACK literal of a field.
std::string Literal(std::string_view name, std::string_view value);

// A message with gRPC's prefix.
std::string Message(std::string_view bytes, char flag = 0);

// Frames.
std::string Data(std::string payload, char flags = 0, std::uint32_t stream = 1);
std::string Reset(std::uint32_t code, std::uint32_t stream = 1);
std::string WindowUpdate(std::uint32_t increment, std::uint32_t stream);
std::string Ping(std::string_view payload = "12345678");
std::string Setting(std::uint16_t id, std::uint32_t value);  // a SETTINGS frame with one setting
std::string FrameOf(char type, std::string payload, char flags = 0, std::uint32_t stream = 0);

// A whole unary request.
std::string UnaryRequest(std::string_view path, std::string_view message, std::uint32_t stream = 1);

// Compress `bytes` with gRPC's encodings gzip and deflate.
std::string Gzip(std::string_view bytes);
std::string Deflate(std::string_view bytes);

}  // namespace sluice::test
