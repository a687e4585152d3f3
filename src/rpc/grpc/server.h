// The engine based on gRPC's C++ server: a generic callback service runs the handlers of
// rpc/handler.h.
//
//   gRPC's threads: Reactor ──post──▶ io thread: OpenCall ──▶ handler
//                      ▲                             │
//                      └── StartWrite, StartRead, Finish
//
// Calls are assigned to io threads round-robin. The state of a call belongs to its io thread;
// gRPC's threads only post events to it. See rpc::Server for all else.
#pragma once

#include <memory>

#include "base/result.h"
#include "net/io_threads.h"
#include "rpc/method.h"
#include "rpc/server.h"

namespace sluice::rpc::grpc_engine {

// Starts a server. `threads` must run until the server is destroyed. gRPC cannot limit connections
// or refuse streams, so max_connections has no effect, and calls beyond max_calls fail with
// UNAVAILABLE. There are no metrics. Fails with kUnavailable if it cannot listen on the address.
Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options);

}  // namespace sluice::rpc::grpc_engine
