// Takes the messages out of a request's bytes: each has a flag (compressed or not), its length in
// four bytes, and itself. After "gRPC over HTTP2", Length-Prefixed-Message.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::rpc::http2 {

class MessageReader {
 public:
  static constexpr std::size_t kPrefixBytes = 5;

  enum class Next : std::uint8_t {
    kMessage,   // message() is the next one
    kNothing,   // no byte of another message has come
    kPartial,   // a message has begun; expected() says how long it is, if that has come
    kTooLarge,  // the next message exceeds the limit; expected() says by how much
    kBadFlag,   // the flag is neither 0 nor 1
  };

  // Begins a new request.
  void Reset();

  // REQUIRES: no view of message() is in use.
  void Append(std::string_view bytes);

  // Takes the next message, of at most `max_bytes`.
  Next Take(std::size_t max_bytes);

  // What Take has found last; valid until Append or Reset.
  std::string_view message() const { return message_; }
  bool compressed() const { return compressed_; }

  // Length of the message that Take found unfinished or too large; 0 if not known yet.
  std::size_t expected() const { return expected_; }

  // Bytes that have come and were not taken yet.
  std::size_t pending() const { return buffer_.size() - taken_; }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;  // of buffer_
  std::string_view message_;
  std::size_t expected_ = 0;
  bool compressed_ = false;
};

}  // namespace sluice::rpc::http2
