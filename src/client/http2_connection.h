// A client's HTTP/2 connection for gRPC calls, over TCP, a unix socket or TLS.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "client/grpc_call.h"
#include "client/target.h"
#include "net/loop.h"
#include "net/transport.h"

struct nghttp2_session;

namespace sluice {

// The TLS setup for connections to `target`; null if `target` has no TLS. The error names the
// invalid file.
Result<std::unique_ptr<net::TlsClientContext>> LoadTls(const Target& target);

class Http2Connection final : private net::Protocol {
 public:
  // Starts to connect, in plaintext if `tls` is null. If the server's name has several addresses,
  // each is tried for up to `timeout`. Calls `on_event` when bytes are received or sent, and when
  // the connection is lost. `on_event` must not call the connection.
  Http2Connection(net::Loop& loop, const Target& target, const net::TlsClientContext* tls,
                  Duration timeout, std::function<void()> on_event);
  ~Http2Connection() override;
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // Starts a gRPC request. `path` must outlive the connection. `call` must live until its OnClose
  // or Cancel, or as long as the connection. If `timeout` is not 0, it is sent to the server.
  // REQUIRES: accepts_requests()
  std::int32_t Request(const char* path, GrpcCall& call, Duration timeout = {});

  // Continues to send a request after its TakeBody has returned 0.
  void Resume(std::int32_t stream_id);

  // Resets a call. After that, the call gets no callback.
  void Cancel(std::int32_t stream_id);

  // Whether the server has sent its settings.
  bool settled() const { return settled_; }

  // Whether the server has sent its settings and no GOAWAY, and the connection is not lost.
  bool accepts_requests() const;

  // The maximum number of requests in flight that the server allows.
  std::uint32_t max_streams() const;

  // Why the connection is lost; empty if it is not lost. Calls on a lost connection get no
  // callbacks.
  const std::string& loss() const { return loss_; }

  net::Loop& loop() { return loop_; }

 private:
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

// A call with one request, on a connection of its own. OnStatus is also called when the connection
// is lost, so it may be called more than once. Must be destroyed by Loop::DisposeLater.
class LoneCall : public GrpcCall, public net::Flushable {
 public:
  // `target`, `tls` and `path` must outlive the call. The Http2Connection gets
  // `connect_timeout`, and Request gets `timeout`.
  LoneCall(net::Loop& loop, const Target& target, const net::TlsClientContext* tls,
           Duration connect_timeout, const char* path, std::string_view request,
           Duration timeout = {});

  // Whether the server has answered in HTTP/2.
  bool connected() const { return connection_.settled(); }

 private:
  void Flush() override;

  const char* const path_;
  const Duration timeout_;
  Http2Connection connection_;
  bool sent_ = false;
};

}  // namespace sluice
