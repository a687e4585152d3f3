// The header fields of a request: what gRPC's protocol over HTTP/2 says with them, and the caller's
// own (metadata). After "gRPC over HTTP2" (PROTOCOL-HTTP2.md).
//
// Loop thread only. Used again for one request after the other, so that it seldom allocates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::rpc::http2 {

// How messages are compressed.
enum class Encoding : std::uint8_t { kIdentity, kGzip, kDeflate, kUnknown };

// The value of a grpc-timeout: 1 to 8 digits and a unit of H M S m u n. Nothing if it is malformed.
// What no nanoseconds can hold is nanoseconds::max(): never.
std::optional<std::chrono::nanoseconds> ParseTimeout(std::string_view text);

// Whether a content-type is gRPC's: application/grpc, perhaps with "+suffix" or ";parameter".
bool IsGrpcContentType(std::string_view value);

class RequestHead {
 public:
  // The most that the fields of a request may have together, counted as
  // SETTINGS_MAX_HEADER_LIST_SIZE counts: names, values and 32 bytes for each field.
  static constexpr std::size_t kMaxBytes = 16 * 1024;

  // Begins a new request.
  void Clear();

  // A field, in the order of arrival. What exceeds kMaxBytes is dropped.
  void Add(std::string_view name, std::string_view value);

  bool too_large() const { return size_ > kMaxBytes; }
  bool is_post() const { return is_post_; }
  bool is_grpc() const { return is_grpc_; }
  std::string_view path() const { return Text(path_); }

  // Nothing if there is none, or a malformed one: gRPC's server ignores those, too.
  std::optional<std::chrono::nanoseconds> timeout() const { return timeout_; }

  Encoding encoding() const { return encoding_; }
  std::string_view encoding_name() const { return Text(encoding_name_); }

  // The value of a field that is not the protocol's own; nothing if there is none or more than one.
  std::optional<std::string_view> Metadata(std::string_view name) const;

 private:
  struct Slice {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };
  struct Field {
    Slice name;
    Slice value;
  };

  bool AddOwn(std::string_view name, std::string_view value);
  Slice Keep(std::string_view text);
  std::string_view Text(Slice slice) const {
    return std::string_view(text_).substr(slice.begin, slice.size);
  }

  std::string text_;
  std::vector<Field> metadata_;
  std::size_t size_ = 0;
  Slice path_;
  Slice encoding_name_;
  std::optional<std::chrono::nanoseconds> timeout_;
  Encoding encoding_ = Encoding::kIdentity;
  bool is_post_ = false;
  bool is_grpc_ = false;
};

}  // namespace sluice::rpc::http2
