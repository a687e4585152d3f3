// A client's HTTP/2 connection for gRPC calls, over TCP, a unix socket or TLS.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "load/plan.h"
#include "net/loop.h"
#include "net/transport.h"

struct nghttp2_session;

namespace sluice::load {

// A request and its response on a connection.
class Http2Stream {
 public:
  virtual ~Http2Stream() = default;

  // The response: headers, parts of the body, trailers.
  virtual void OnHeader(std::string_view name, std::string_view value) = 0;
  virtual void OnData(std::string_view data) = 0;

  // The last callback, unless the connection is lost. `http2_error`: 0 if there is no error.
  virtual void OnClose(std::uint32_t http2_error) = 0;

  // Copies up to `size` bytes of the request's body to `buffer`. Returns their number, 0 if there
  // are none yet. Sets `ended` at the end of the body.
  virtual std::size_t TakeBody(char* buffer, std::size_t size, bool& ended) = 0;
};

class Http2Connection final : private net::Protocol {
 public:
  // Starts to connect, in plaintext if `tls` is null. Calls `on_event` after bytes were received or
  // sent and when the connection is lost. `on_event` must not call the connection.
  Http2Connection(net::Loop& loop, const Plan& plan, const net::TlsClientContext* tls,
                  std::function<void()> on_event);
  ~Http2Connection() override;
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // Starts a gRPC request. `path` must outlive the connection; `stream` must live until its OnClose
  // or Cancel, or as long as the connection. REQUIRES: accepts_requests()
  std::int32_t Request(const char* path, Http2Stream& stream);

  // Continues a body whose TakeBody has returned 0.
  void Resume(std::int32_t stream_id);

  // Resets a stream. It gets no callback after that.
  void Cancel(std::int32_t stream_id);

  // Whether the server has sent its settings.
  bool settled() const { return settled_; }

  // False once the connection is lost or the server has sent GOAWAY.
  bool accepts_requests() const;

  // The maximum number of requests in flight that the server allows.
  std::uint32_t max_streams() const;

  // Why the connection is lost; empty while it is not. Streams of a lost connection get no
  // callbacks.
  const std::string& loss() const { return loss_; }

  net::Loop& loop() { return loop_; }

 private:
  struct Callbacks;

  void StartSession(net::TransportPtr transport);
  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;
  void RequestFlush();
  void Lose(std::string_view why);
  void LoseIfOver();

  net::Loop& loop_;
  const std::function<void()> on_event_;
  const std::string authority_;
  const std::string authorization_;  // value of the header; empty: none
  const bool is_tls_;
  std::unique_ptr<net::ConnectAttempt> attempt_;
  net::TransportPtr transport_;
  nghttp2_session* session_ = nullptr;
  std::string complaint_;  // nghttp2's error, or the text of the server's GOAWAY
  std::string loss_;
  bool settled_ = false;
};

}  // namespace sluice::load
