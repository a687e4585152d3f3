// A server of methods on one address, whichever engine carries it.
//
// Start (of each engine), Stop and the destructor: by one owner, not on an io thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"

namespace sluice {
class MetricsRegistry;
}

namespace sluice::net {
class TlsServerContext;
}

namespace sluice::rpc {

struct ServerOptions {
  Address address;
  // Of a unix socket: only processes of this user may connect. rpc/http2 alone.
  bool private_socket = false;
  // Null: without TLS. Must outlive the server.
  net::TlsServerContext* tls = nullptr;
  // The most that a message may have, inflated; beyond, RESOURCE_EXHAUSTED.
  std::size_t max_message_bytes = 1024 * 1024;
  // Connections beyond are closed as soon as they are accepted.
  std::size_t max_connections = 100'000;
  // A connection of about this age (10 % more or less, so that connections made together do not end
  // together) is sent GOAWAY: streams are told to end, calls under way end, and the caller
  // connects anew, perhaps to another server. Zero: connections may stay.
  Duration max_connection_age{};
  // Open calls of the server; beyond, new ones are refused (REFUSED_STREAM: try elsewhere).
  std::size_t max_calls = 100'000;
  // Null: nobody looks. Else must outlive the server.
  MetricsRegistry* metrics = nullptr;
};

class Server {
 public:
  // As Stop(0). Also frees the handlers: whoever may still call one (a store, a worker) must be
  // gone before.
  virtual ~Server() = default;

  // Where it listens, with the port really bound.
  virtual const Address& address() const = 0;

  // Goes on serving until no unary call has come or is under way for a moment, or half of `drain`
  // has passed: callers that were told to go elsewhere need the time. Then takes no more
  // connections, sends callers away (GOAWAY), tells streams to end, lets calls under way end, and
  // closes the connections: those still open after `drain` at once. Returns when no connection is
  // left, at most a moment after `drain`. Calls that have not finished then are detached: their
  // handlers live on until the server is destroyed.
  virtual void Stop(Duration drain) = 0;
};

}  // namespace sluice::rpc
