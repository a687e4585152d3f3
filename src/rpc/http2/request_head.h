// The header fields of a request: the gRPC protocol's fields, and the metadata that handlers read.
// Nothing else is kept, because an attacker can send fields that are large in memory, but
// compressed to a few bytes on the wire. Source: "gRPC over HTTP2" (PROTOCOL-HTTP2.md).
//
// Loop thread only. Reused for later requests, so that it seldom allocates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::rpc::http2 {

// The compression of messages.
enum class Encoding : std::uint8_t { kIdentity, kGzip, kDeflate, kUnknown };

// Parses grpc-timeout: 1 to 8 digits and a unit, one of H M S m u n. Returns nullopt if `text`
// is malformed, and nanoseconds::max() (no timeout) on overflow.
std::optional<std::chrono::nanoseconds> ParseTimeout(std::string_view text);

class RequestHead {
 public:
  // The maximum total size of a request's fields, counted as in SETTINGS_MAX_HEADER_LIST_SIZE:
  // names, values and 32 bytes for each field.
  static constexpr std::size_t kMaxBytes = 16 * 1024;

  // Prepares for a new request, and frees memory that most requests do not need.
  void Clear();

  // Adds the request's next field. Keeps a metadata field if its name is in `names`, which must
  // outlive the request. Drops fields beyond kMaxBytes.
  void Add(std::string_view name, std::string_view value, std::span<const std::string> names);

  // The number of bytes kept, or 0 if they are few: the limit on calls bounds the memory of small
  // requests.
  std::size_t large_bytes() const { return text_.size() > kSmallBytes ? text_.size() : 0; }

  bool too_large() const { return size_ > kMaxBytes; }
  bool is_post() const { return is_post_; }
  bool is_grpc() const { return is_grpc_; }
  // Cut off at kMaxPath. The paths of all methods are shorter.
  static constexpr std::size_t kMaxPath = 256;
  std::string_view path() const { return Text(path_); }

  // nullopt if grpc-timeout is missing or malformed. gRPC's server also ignores malformed timeouts.
  std::optional<std::chrono::nanoseconds> timeout() const { return timeout_; }

  Encoding encoding() const { return encoding_; }
  std::string_view encoding_name() const { return Text(encoding_name_); }

  // The value of a metadata field. nullopt if the field is absent or occurs more than once.
  std::optional<std::string_view> Metadata(std::string_view name) const;

 private:
  struct Slice {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };
  struct Field {
    std::string_view name;
    Slice value;
    bool repeated = false;
  };
  static constexpr std::size_t kSmallBytes = 512;

  bool AddOwn(std::string_view name, std::string_view value);
  void AddMetadata(std::string_view name, std::string_view value);
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
