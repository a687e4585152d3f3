// A client of HTTP/2 that sends whatever it is told to, and notes what comes back.
//
// One thread.
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

// What has come on a stream.
struct RawStream {
  using Fields = std::vector<std::pair<std::string, std::string>>;

  std::vector<Fields> headers;  // by HEADERS frame: the response's, the trailers
  std::string data;
  bool ended = false;                  // END_STREAM
  std::optional<std::uint32_t> reset;  // the code of RST_STREAM
  bool left = false;                   // the client has reset it
  bool over() const { return ended || reset.has_value() || left; }

  // The last value of a field in any of the headers; empty if there is none.
  std::string Field(std::string_view name) const;

  // On a line: the HTTP status, grpc-status, "only" if there are no headers before the trailers,
  // the messages in quotes (longer ones by their size), the reset's code, "left" if the client has
  // reset it, and "open" if it is not over: "200 0 'hello'", "200 12 only", "reset PROTOCOL_ERROR".
  // What comes after the end is left out.
  std::string Text() const;
};

class RawConnection {
 public:
  // Connected, nothing sent.
  explicit RawConnection(const Address& address);
  ~RawConnection();

  // The preface and SETTINGS of a client that takes in 1 GiB at once.
  void SendPreface();
  void Send(std::string_view bytes);
  // One byte at a time.
  void SendSlowly(std::string_view bytes);

  const RawStream& stream(std::uint32_t id) { return streams_[id]; }

  // Take in what comes until it is so, or the connection is over, or for 5 seconds at most.
  void Await(const std::function<bool()>& condition);
  void AwaitEnd(std::uint32_t stream);
  void AwaitHeaders(std::uint32_t stream);
  void AwaitData(std::uint32_t stream, std::size_t bytes);
  void AwaitFrames(char type, int count);
  // All that the server had to say before it has read what was sent so far.
  void AwaitPong();

  // The number of frames of a type that have come, acknowledgements of PING included.
  int frames(char type) { return frames_[type]; }
  bool closed() const { return closed_; }
  // The code of the last GOAWAY.
  std::optional<std::uint32_t> goaway() const { return goaway_; }

  // Whether a PING is answered and a call served: "alive", "goaway CODE", "closed" or "stuck".
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
  std::string block_;  // of header fields, until END_HEADERS
  char block_flags_ = 0;
  nghttp2_hd_inflater* inflater_ = nullptr;
  std::optional<std::uint32_t> goaway_;
  int pongs_ = 0;
  bool closed_ = false;
};

// "PROTOCOL_ERROR" for 1.
std::string ErrorName(std::uint32_t code);

}  // namespace sluice::test
