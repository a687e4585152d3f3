// The gRPC server based on nghttp2. Each io thread serves its own connections.
//
//   acceptor (io-0) ──socket──▶ Shard of the least loaded thread ──▶ Connection ─ Session ─ Streams
//
// StartServer, Stop and the destructor are called by one owner, not on an io thread.
#pragma once

#include <memory>

#include "base/result.h"
#include "net/io_threads.h"
#include "rpc/http2/shared_state.h"
#include "rpc/method.h"
#include "rpc/server.h"

namespace sluice::rpc::http2 {

// Starts a server. `threads` must run until the server is destroyed. Fails with kUnavailable if it
// cannot listen on the address. `times`: shorter in tests.
Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options, const Times& times = {});

}  // namespace sluice::rpc::http2
