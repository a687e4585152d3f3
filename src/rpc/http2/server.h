// The gRPC server on nghttp2: every io thread serves the connections it is given.
//
//   acceptor (io-0) ──socket──▶ Shard of the least loaded thread ──▶ Connection ─ Session ─ Streams
//
// As rpc::Server: start, Stop and the destructor by one owner, not on an io thread.
#pragma once

#include <memory>

#include "base/result.h"
#include "net/io_threads.h"
#include "rpc/http2/shared_state.h"
#include "rpc/method.h"
#include "rpc/server.h"

namespace sluice::rpc::http2 {

// Listens and serves. `threads` must run until the server is destroyed. Fails with kUnavailable if
// the address cannot be listened on. Tests shorten `times`.
Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options, const Times& times = {});

}  // namespace sluice::rpc::http2
