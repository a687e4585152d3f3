// The engine that is gRPC's own: its C++ server, with a generic callback service that carries the
// handlers of rpc/handler.h.
//
//   gRPC's threads: Reactor ──post──▶ io thread: OpenCall ──▶ handler
//                      ▲                             │
//                      └── StartWrite, StartRead, Finish
//
// Calls go to the io threads in turn. All state of a call lives on its io thread; a reactor only
// posts to it. As rpc::Server otherwise.
#pragma once

#include <memory>

#include "base/result.h"
#include "net/io_threads.h"
#include "rpc/method.h"
#include "rpc/server.h"

namespace sluice::rpc::grpc_engine {

// Serves from the moment it returns. `threads` must run until the server is destroyed. Of the
// options, max_connections has no effect, since gRPC cannot bound its connections, and there are no
// metrics. Calls beyond max_calls are answered with UNAVAILABLE, since gRPC cannot refuse a stream
// either. Fails with kUnavailable if the address cannot be listened on.
Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options);

}  // namespace sluice::rpc::grpc_engine
