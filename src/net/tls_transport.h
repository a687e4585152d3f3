// TLS over another transport. The protocol receives plaintext. It receives nothing before the
// handshake is done and peer() is complete.
//
// Loop thread only. Idle connections keep no buffers.
#pragma once

#include <string>

#include "net/loop.h"
#include "net/tls_context.h"
#include "net/transport.h"

namespace sluice::net {

// The server's end over `inner`, which must not be started yet. The transport reports kLost with
// the cause if the handshake fails or times out, or if the peer closes without close_notify. The
// connection keeps the current setup of `context`; the context need not outlive the connection.
TransportPtr AcceptTls(Loop& loop, TransportPtr inner, const TlsServerContext& context,
                       Alpn alpn = {});

// The client's end. The server's certificate must match `server_name`, a host name or a numeric
// address.
TransportPtr ConnectTls(Loop& loop, TransportPtr inner, const TlsClientContext& context,
                        const std::string& server_name);

}  // namespace sluice::net
