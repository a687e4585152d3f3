// An HTTP/1.1 server on the io threads: serves a table of routes over TCP, TLS or a unix socket.
//
// Start and Stop are called by one owner, not on an io thread.
#pragma once

#include <memory>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "http/http_state.h"
#include "http/router.h"
#include "net/connection_server.h"
#include "net/io_threads.h"

namespace sluice {

class HttpServer {
 public:
  // Starts a server. `threads` must be running. They, and all objects that the routes use, must
  // outlive the server.
  static Result<std::unique_ptr<HttpServer>> Start(net::IoThreads& threads, const Address& address,
                                                   std::vector<HttpRoute> routes,
                                                   const HttpOptions& options = {});

  // Calls Stop without a drain.
  ~HttpServer();

  // Keeps serving until requests pause, for at most half of `drain`. Then stops listening, answers
  // open requests, and closes each connection after its next response or a short pause. Connections
  // that are open after `drain` are closed at once; later responses are dropped.
  void Stop(Duration drain);

  // The listening address, with the actual port.
  const Address& address() const { return connections_->address(); }

  // Thread-safe.
  std::size_t connections() const { return connections_->count().open(); }

 private:
  HttpServer(net::IoThreads& threads, std::vector<HttpRoute> routes, const HttpOptions& options,
             std::unique_ptr<net::ConnectionServer> connections);

  void FreeMemory(const net::Loop& loop);

  HttpState shared_;
  std::vector<std::unique_ptr<HttpLoopState>> by_loop_;
  const std::unique_ptr<net::ConnectionServer> connections_;
  bool stopped_ = false;
};

}  // namespace sluice
