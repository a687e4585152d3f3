// A client's HTTP/2 connection without TLS (prior knowledge), for gRPC calls.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "load/socket.h"

struct nghttp2_session;

namespace sluice::load {

// A request and its answer, as its connection meets them.
class Http2Stream {
 public:
  virtual ~Http2Stream() = default;

  // Of the answer: its headers, the pieces of its body, its trailers.
  virtual void OnHeader(std::string_view name, std::string_view value) = 0;
  virtual void OnData(std::string_view data) = 0;

  // The last that is heard, unless the connection is lost. 0: no error of HTTP/2's.
  virtual void OnClose(std::uint32_t http2_error) = 0;

  // Takes the next of the request's body, up to `size` bytes; 0 if there is none now. `ended`: none
  // will ever follow.
  virtual std::size_t TakeBody(char* buffer, std::size_t size, bool& ended) = 0;
};

class Http2Connection {
 public:
  // Returns when the server has said its settings, or fails, at the latest at `deadline`:
  // kUnavailable if nobody or none that speaks HTTP/2 is there.
  static Result<std::unique_ptr<Http2Connection>> Open(const Address& address, SteadyTime deadline);

  ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // Begins a POST of gRPC's. `path` lives for ever, `stream` until its OnClose or as long as the
  // connection. REQUIRES: accepts_requests()
  std::int32_t Request(const char* path, Http2Stream& stream);

  // There is more of a body whose TakeBody has returned 0.
  void Resume(std::int32_t stream_id);

  // Hands what has arrived to its streams.
  void Receive();

  // Sends what is to be sent, as far as the socket takes it.
  void Flush();

  // Whether Flush is to be called once the socket is writable.
  bool wants_write() const { return sent_ < out_.size(); }

  // Not once it is lost or the server has said GOAWAY.
  bool accepts_requests() const;

  // How many requests the server lets be under way.
  std::uint32_t max_streams() const;

  // Once lost, its socket is closed and no stream hears of it any more. `loss` says why.
  bool lost() const { return !loss_.empty(); }
  const std::string& loss() const { return loss_; }

  int fd() const { return socket_.fd(); }

 private:
  struct Callbacks;

  explicit Http2Connection(Socket socket);
  Result<void> AwaitSettings(SteadyTime deadline);
  void Gather();
  void Write();
  void Lose(std::string why);
  void LoseIfOver();

  Socket socket_;
  nghttp2_session* session_ = nullptr;
  std::string authority_;
  std::string out_;  // to be sent
  std::size_t sent_ = 0;
  std::unique_ptr<char[]> in_;
  std::string complaint_;  // nghttp2's, or the server's GOAWAY
  std::string loss_;
  bool settled_ = false;
};

}  // namespace sluice::load
