// An HTTP/2 client that sends arbitrary bytes and records the server's frames.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "tests/support/http2_frame.h"

struct nghttp2_hd_inflater;

namespace sluice::test {

// The received frames of a stream.
struct RawStream {
  using Fields = std::vector<std::pair<std::string, std::string>>;

  std::vector<Fields> headers;  // one for each HEADERS frame: the response's, then the trailers
  std::string data;
  bool ended = false;                  // END_STREAM
  std::optional<std::uint32_t> reset;  // the code of RST_STREAM
  bool left = false;                   // whether the client has reset the stream
  bool over() const { return ended || reset.has_value() || left; }

  // The value of a field in the last header block that has the field; empty if none has it.
  std::string Field(std::string_view name) const;

  // One line: the HTTP status; grpc-status; "only" if the response is trailers-only; the messages
  // in quotes, or the sizes of long messages; the code of the server's reset; "left" if the client
  // has reset the stream; "open" if the stream is not over. Examples: "200 0 'hello'",
  // "200 12 only", "reset PROTOCOL_ERROR". Frames after the end are ignored.
  std::string Text() const;
};

class RawConnection {
 public:
  // Connects, but sends nothing.
  explicit RawConnection(const Address& address);
  ~RawConnection();

  // Sends the preface and SETTINGS with a window of 1 GiB.
  void SendPreface();
  void Send(std::string_view bytes);
  // Sends one byte at a time.
  void SendSlowly(std::string_view bytes);

  const RawStream& stream(std::uint32_t id) { return streams_[id]; }

  // Read until the condition holds or the connection has ended, for up to 5 s.
  void Await(const std::function<bool()>& condition);
  void AwaitEnd(std::uint32_t stream);
  void AwaitHeaders(std::uint32_t stream);
  void AwaitData(std::uint32_t stream, std::size_t bytes);
  void AwaitFrames(char type, int count);
  // Reads until the server has processed all bytes sent so far.
  void AwaitPong();

  // The number of received frames of a type, including acks.
  int frames(char type) { return frames_[type]; }
  bool closed() const { return closed_; }
  // The code of the last GOAWAY.
  std::optional<std::uint32_t> goaway() const { return goaway_; }

  // Sends a PING and a call. Returns "alive", "goaway CODE" ("goaway CODE unclosed" if the server
  // does not close the connection afterward), "closed", or "stuck: " and the call's Text.
  std::string Health();

 private:
  void NoteResets(std::string_view sent);
  void Receive();
  void TakeIn(std::chrono::milliseconds patience);
  void NoteAll();
  void Note(Http2Frame frame);
  void NoteHeaders(const Http2Frame& frame);
  RawStream::Fields Inflate(const std::string& block);

  int socket_;
  std::string received_;
  std::map<std::uint32_t, RawStream> streams_;
  std::map<char, int> frames_;
  std::string block_;  // the header block that is incomplete
  char block_flags_ = 0;
  nghttp2_hd_inflater* inflater_ = nullptr;
  std::optional<std::uint32_t> goaway_;
  int pongs_ = 0;
  bool closed_ = false;
};

// "PROTOCOL_ERROR" for 1.
std::string ErrorName(std::uint32_t code);

}  // namespace sluice::test
