// What an HTTP server grants its clients.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace sluice {

class MetricsRegistry;

namespace net {
class TlsServerContext;
}

struct HttpOptions {
  // If another client comes, the connection that has been idle longest makes room. Never more than
  // a quarter of the process' file descriptors, so that idle clients keep nobody else out.
  std::size_t max_connections = 1'024;
  Duration idle_time = std::chrono::seconds(30);     // from an answer to the next request
  Duration request_time = std::chrono::seconds(10);  // from a request's first byte to its last
  Duration answer_time = std::chrono::seconds(30);   // for the client to take an answer
  // Null: without TLS. Else must outlive the server.
  const net::TlsServerContext* tls = nullptr;
  // Null: nobody looks. Else must outlive the server.
  MetricsRegistry* metrics = nullptr;
};

}  // namespace sluice
