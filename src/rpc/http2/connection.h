// A connection of a caller: its transport, its HTTP/2 session and its timeouts.
//
//   open ──Drain──▶ noticed ──PING answered, or 1 s──▶ draining ──no calls──▶ lingering ──▶ closed
//
// noticed: a first GOAWAY has announced the shutdown, but new calls are still accepted.
// draining: the final GOAWAY is sent; open calls finish. lingering: FIN is sent, and the connection
// reads until the peer closes or a timeout expires, so that the peer can receive all output.
//
// Loop thread only.
#pragma once

#include <memory>

#include "net/loop_connections.h"
#include "rpc/http2/shard.h"

namespace sluice::rpc::http2 {

// `shard` must outlive the connection.
std::unique_ptr<net::ServedConnection> MakeConnection(Shard& shard, net::TransportPtr transport,
                                                      bool has_place);

}  // namespace sluice::rpc::http2
