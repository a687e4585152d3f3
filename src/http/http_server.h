// An HTTP/1.1 server on the io threads: a table of routes on TCP, TLS or a unix socket.
//
// Start and Stop by one owner, not on an io thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "http/http_options.h"
#include "http/router.h"
#include "net/io_threads.h"

namespace sluice {

class HttpServer {
 public:
  // Serves from the moment it returns. What the routes use and `threads`, which run, must outlive
  // the server.
  static Result<std::unique_ptr<HttpServer>> Start(net::IoThreads& threads, const Address& address,
                                                   std::vector<HttpRoute> routes,
                                                   const HttpOptions& options = {});

  // As Stop.
  ~HttpServer();

  // Stops listening and closes all connections. Answers that come later are dropped.
  void Stop();

  // Where it listens, with the port really bound.
  const Address& address() const;

  // Thread-safe.
  std::size_t connections() const;
  std::uint64_t refused() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace sluice
