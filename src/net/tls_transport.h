// TLS over another transport. The protocol above sees plain bytes, and nothing before the handshake
// is done: then peer() says who the other end is.
//
// Loop thread only. An idle connection keeps no buffers.
#pragma once

#include <string>

#include "net/loop.h"
#include "net/tls_context.h"
#include "net/transport.h"

namespace sluice::net {

// The server's end of `inner`, which has not been started. It is lost, with the cause, if the
// handshake fails or takes too long, or if the peer ends without saying so in TLS. `context`
// is used here only: what it has now holds for this connection.
TransportPtr AcceptTls(Loop& loop, TransportPtr inner, const TlsServerContext& context);

// The client's end. The server's certificate must be for `server_name`: a host name or a numeric
// address.
TransportPtr ConnectTls(Loop& loop, TransportPtr inner, const TlsClientContext& context,
                        const std::string& server_name);

}  // namespace sluice::net
