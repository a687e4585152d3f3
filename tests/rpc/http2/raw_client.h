// A client that sends arbitrary frames and records the server's frames.
//
// Each wait times out after 10 s. The reply is then incomplete, so the test's expectations fail.
#pragma once

#include <cstdint>
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

using Headers = std::vector<std::pair<std::string, std::string>>;

// All frames that the server has sent on a stream.
struct RawReply {
  std::map<std::string, std::string> headers;   // of the first HEADERS frame
  std::map<std::string, std::string> trailers;  // of the later HEADERS frame, if there is one
  std::string data;
  bool ended = false;        // END_STREAM was received
  std::optional<int> reset;  // code of RST_STREAM
  int data_frames = 0;

  // grpc-status; -1 if the response has no grpc-status.
  int status() const;
  // grpc-message, not decoded.
  std::string message() const;
};

struct RawGoaway {
  std::uint32_t last_stream = 0;
  std::uint32_t error = 0;
  std::string text;
};

// A message with gRPC's prefix.
std::string Framed(std::string_view message, bool compressed = false);

// A header block without compression.
std::string HeaderBlock(const Headers& headers);

// The headers of a gRPC request. `changes` replaces or adds fields; an empty value removes a field.
Headers RequestHeaders(std::string_view path, const Headers& changes = {});

class RawClient {
 public:
  // Sends the preface and SETTINGS if `greet` is true.
  explicit RawClient(const Address& address, bool greet = true);
  ~RawClient();

  void SendBytes(std::string_view bytes);
  void Send(const Http2Frame& frame) { SendBytes(frame.Bytes()); }

  // Send the header block or the data, in as many frames as necessary.
  void SendHeaders(std::uint32_t stream, const Headers& headers, bool end = false);
  void SendData(std::uint32_t stream, std::string_view data, bool end = false);
  void SendReset(std::uint32_t stream, std::uint32_t code = 8);
  void SendPing();
  void SendWindow(std::uint32_t stream, std::uint32_t bytes);

  // Sends a unary call as gRPC clients do.
  void SendCall(std::uint32_t stream, std::string_view path, std::string_view message,
                const Headers& changes = {});

  // Reads until the stream has ended or was reset, or the connection has ended.
  RawReply Await(std::uint32_t stream);
  // Reads until `bytes` of the stream's data were received.
  RawReply AwaitData(std::uint32_t stream, std::size_t bytes);
  // Reads until the ack of a PING.
  bool AwaitPong();
  // Reads until the second GOAWAY, or the first one with an error.
  std::optional<RawGoaway> AwaitGoaway();
  // Reads until the server closes the connection. Returns false on a timeout.
  bool AwaitEnd();
  // Reads until the server's SETTINGS. Returns the values by id.
  std::map<int, std::uint32_t> AwaitSettings();

  // Whether to ack PING frames. Default: true.
  void SetAnswersPings(bool answers) { answers_pings_ = answers; }
  // Whether to send WINDOW_UPDATE for received data. Default: true.
  void SetReturnsWindow(bool returns) { returns_window_ = returns; }
  const std::vector<RawGoaway>& goaways() const { return goaways_; }
  // The bytes that the server has added to the stream's window or, for stream 0, to the
  // connection's window.
  std::uint64_t window_given(std::uint32_t stream) { return windows_[stream]; }
  const RawReply& reply(std::uint32_t stream) { return replies_[stream]; }
  int fd() const { return fd_; }

 private:
  template <typename Done>
  bool ReadUntil(Done done);
  bool ReadSome();
  void Handle(const Http2Frame& frame);
  void HandleHeaders(const Http2Frame& frame);

  int fd_;
  std::string received_;
  bool ended_ = false;
  bool answers_pings_ = true;
  bool returns_window_ = true;
  int pongs_ = 0;
  std::map<std::uint32_t, RawReply> replies_;
  std::map<std::uint32_t, std::uint64_t> windows_;
  std::map<int, std::uint32_t> settings_;
  bool has_settings_ = false;
  std::vector<RawGoaway> goaways_;
  nghttp2_hd_inflater* inflater_ = nullptr;
};

}  // namespace sluice::test
