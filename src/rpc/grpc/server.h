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

// Serves from the moment it returns, but for max_connections, which gRPC cannot bound. `threads`
// must run until the server is destroyed.
Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options);

}  // namespace sluice::rpc::grpc_engine
