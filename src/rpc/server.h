// An RPC server on one address, independent of the engine.
//
// StartServer of an engine, Stop and the destructor are called by one owner, not on an io thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "rpc/handler.h"

namespace sluice {
class MetricsRegistry;
}

namespace sluice::net {
class TlsServerContext;
}

namespace sluice::rpc {

struct ServerOptions {
  Address address;
  // The permissions of a unix socket's file. Connecting requires write permission. Absent: the
  // umask applies. rpc/grpc sets them a moment after it starts to listen.
  std::optional<mode_t> socket_mode = std::nullopt;
  // Null disables TLS. Must outlive the server.
  net::TlsServerContext* tls = nullptr;
  // The maximum decompressed size of a message. Larger messages fail with RESOURCE_EXHAUSTED.
  std::size_t max_message_bytes = 1024 * 1024;
  // A connection beyond this number replaces one that waits for no answer (net/eviction.h). If all
  // connections wait for answers, the new one gets answers to probes only, and ends after a second.
  std::size_t max_connections = 100'000;
  // A connection gets GOAWAY at this age, with 10 % jitter. Streams are asked to end and open calls
  // finish. The caller then reconnects, perhaps to another server. Zero disables this.
  Duration max_connection_age{};
  // The maximum number of open calls, except of probes. More are refused (REFUSED_STREAM), so
  // callers can retry. A peer may have three times as many as are left.
  std::size_t max_calls = 100'000;
  // Whether the server knows the caller. Others are refused while half of max_calls is used. Null:
  // all are known. Called on io threads.
  std::function<bool(const Call&)> knows_caller = nullptr;
  // The headers that handlers read with Call::Metadata, in lower case. Others are not kept.
  std::vector<std::string> metadata = {"authorization"};
  // The maximum bytes of messages that are incomplete or not taken yet, over all connections. A
  // peer that uses most of them gets RESOURCE_EXHAUSTED, or its oldest unread calls are reset.
  std::size_t max_buffered_bytes = 128 * 1024 * 1024;
  // May be null. Otherwise must outlive the server.
  MetricsRegistry* metrics = nullptr;
};

class Server {
 public:
  // Calls Stop(0) and destroys the handlers. Objects that may call handlers (stores, workers) must
  // be destroyed before.
  virtual ~Server() = default;

  // The listening address, with the actual port.
  virtual const Address& address() const = 0;

  // Keeps serving for up to half of `drain` while unary calls arrive or are open, so that callers
  // that watch the health service can leave. Then stops accepting connections, sends GOAWAY, asks
  // streams to end and lets open calls finish. Connections still open after `drain` are closed.
  // Returns when no connection is left, at most a moment after `drain`. The handlers of unfinished
  // calls are destroyed with the server.
  virtual void Stop(Duration drain) = 0;
};

}  // namespace sluice::rpc
