// The gRPC server, on nghttp2. Each io thread serves its own connections.
//
//   ConnectionServer ──transport──▶ Connection ─ Session ─ Streams ─ ServerCall ─ handler
//
// Start, Stop and the destructor are called by one owner, not on an io thread.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "net/connection_server.h"
#include "net/io_threads.h"
#include "rpc/http2/server_options.h"
#include "rpc/http2/shard.h"
#include "rpc/http2/shared_state.h"
#include "rpc/method.h"

namespace sluice::rpc::http2 {

class Server {
 public:
  // `threads` must run until the server is destroyed. Fails with kUnavailable if it cannot listen
  // on the address. `times`: shorter in tests.
  static Result<std::unique_ptr<Server>> Start(net::IoThreads& threads, Methods methods,
                                               const ServerOptions& options,
                                               const Times& times = {});

  // Calls Stop(0) and destroys the handlers. Objects that may call handlers (stores, workers) must
  // be destroyed before.
  ~Server();

  // The listening address, with the actual port.
  const Address& address() const { return connections_->address(); }

  // Keeps serving for up to half of `drain` while unary calls arrive or are open, so that callers
  // that watch the health service can leave. Then stops accepting connections, sends GOAWAY, calls
  // OnDrain of streams and lets open calls finish. Connections still open after `drain` are closed.
  // Returns when no connection is left, at most a moment after `drain`. The handlers of unfinished
  // calls are destroyed with the server.
  void Stop(Duration drain);

 private:
  Server(net::IoThreads& threads, std::unique_ptr<net::ConnectionServer> connections,
         std::unique_ptr<SharedState> shared);

  CallCounts UnaryCalls();

  net::IoThreads& threads_;
  const std::unique_ptr<SharedState> shared_;
  std::vector<std::unique_ptr<Shard>> shards_;  // by loop
  const std::unique_ptr<net::ConnectionServer> connections_;
};

}  // namespace sluice::rpc::http2
