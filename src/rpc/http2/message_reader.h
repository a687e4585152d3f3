// Splits a request's bytes into messages. Each has a compressed flag, a length of four bytes and
// the message's bytes. Source: "gRPC over HTTP2", Length-Prefixed-Message.
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
    kMessage,   // message() is the next message
    kNothing,   // no byte of another message is available
    kPartial,   // the next message is incomplete; expected() is its length, if known
    kTooLarge,  // the next message exceeds the limit; expected() is its length
    kInvalid,   // the flag is neither 0 nor 1
  };

  // Prepares for a new request.
  void Reset();

  // REQUIRES: no view of message() is in use.
  void Append(std::string_view bytes);

  // Takes the next message, of at most `max_bytes`.
  Next Take(std::size_t max_bytes);

  // The last message that Take returned. Valid until Append or Reset.
  std::string_view message() const { return message_; }
  bool compressed() const { return compressed_; }

  // After kPartial or kTooLarge, the length of the message; 0 if it is not known yet.
  std::size_t expected() const { return expected_; }

  // Whether the next message is compressed. False if no byte of it has been received.
  bool next_is_compressed() const { return pending() > 0 && buffer_[taken_] != 0; }

  // The number of bytes received but not taken yet.
  std::size_t pending() const { return buffer_.size() - taken_; }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;  // bytes of buffer_ already taken
  std::string_view message_;
  std::size_t expected_ = 0;
  bool compressed_ = false;
};

}  // namespace sluice::rpc::http2
