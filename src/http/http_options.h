// Limits and timeouts of an HTTP server.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "metrics/metrics_registry.h"

namespace sluice {

namespace net {
class TlsServerContext;
}

struct HttpOptions {
  // Beyond this number, a new connection replaces one whose client does not wait for an answer
  // (net/loop_connections.h). If all clients wait for answers, requests on the new connection are
  // answered with 503, except probes.
  std::size_t max_connections = 1'024;
  // The maximum bytes of unfinished requests and unread answers. Beyond it, connections are closed
  // in the same order.
  std::size_t max_buffered = 64 * 1024 * 1024;
  Duration idle_time = std::chrono::seconds(30);  // from a response to the next request
  // The same while the server drains. The response to that request is the connection's last.
  Duration last_idle_time = std::chrono::milliseconds(200);
  Duration request_time = std::chrono::seconds(10);  // from a request's first byte to its last
  Duration answer_time = std::chrono::seconds(30);   // for the client to read a response
  Duration no_place_time = std::chrono::seconds(1);  // the life of a connection without a place
  // The first response after this age, with 10 % jitter, is the connection's last. Zero disables
  // this.
  Duration max_connection_age{};
  // Null disables TLS. Otherwise must outlive the server.
  const net::TlsServerContext* tls = nullptr;
  // Must outlive the server.
  MetricsRegistry* metrics = &MetricsRegistry::Unread();
};

}  // namespace sluice
