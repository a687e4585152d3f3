// The options of a gRPC server, and its timeouts.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "metrics/metrics_registry.h"
#include "net/tls_context.h"
#include "rpc/handler.h"

namespace sluice::rpc::http2 {

struct ServerOptions {
  Address address;
  // The permissions of a unix socket's file. Connecting requires write permission. Absent: the
  // umask applies.
  std::optional<mode_t> socket_mode = std::nullopt;
  // Null disables TLS. Must outlive the server.
  net::TlsServerContext* tls = nullptr;
  // The maximum decompressed size of a message. Larger messages fail with RESOURCE_EXHAUSTED.
  std::size_t max_message_bytes = 1024 * 1024;
  // A connection beyond this number replaces another that is idle, unused or stuck
  // (net/loop_connections.h). If no other can be replaced, the new connection gets answers only to
  // probes, and ends after a second.
  std::size_t max_connections = 100'000;
  // A connection gets GOAWAY at this age (varied by up to 10 %). OnDrain is called for its streams,
  // and its open calls finish. The caller then reconnects, perhaps to another server. Zero disables
  // this.
  Duration max_connection_age{};
  // The maximum number of open calls; probes are not counted. Further calls are refused
  // (REFUSED_STREAM), so callers can retry. On each loop, a peer may have at most three times as
  // many calls as can still be opened.
  std::size_t max_calls = 100'000;
  // Whether the caller of a call is known. While more than half of max_calls is used, calls of
  // unknown callers are refused. Null: all callers are known. Called on io threads.
  std::function<bool(const Call&)> knows_caller = nullptr;
  // The headers that handlers read with Call::Metadata, in lower case. Others are not kept.
  std::vector<std::string> metadata = {"authorization"};
  // The maximum bytes of messages, over all connections. A message counts while it is incomplete,
  // not delivered yet, or not taken by the peer yet. If a peer uses most of these bytes, its
  // requests fail with RESOURCE_EXHAUSTED, and its calls with the oldest unread responses are
  // reset.
  std::size_t max_buffered_bytes = 64 * 1024 * 1024;
  // Must outlive the server.
  MetricsRegistry* metrics = &MetricsRegistry::Unread();
};

// Timeouts of a connection.
struct Times {
  Duration preface = std::chrono::seconds(10);     // for the HTTP/2 preface
  Duration request = std::chrono::seconds(10);     // for a whole request, or a stream's message
  Duration stall = std::chrono::seconds(30);       // for the peer to read pending output
  Duration keepalive = std::chrono::seconds(120);  // without input, before a PING is sent
  Duration ping = std::chrono::seconds(20);        // for the ack of a PING
  Duration notice = std::chrono::seconds(1);       // for the ack of a PING when draining
  Duration linger = std::chrono::seconds(1);       // for the peer to close after the last output
  Duration no_place = std::chrono::seconds(1);     // life of a connection beyond max_connections
  // If a request is incomplete, or output is not read, for this long, the connection counts as
  // stuck.
  Duration stuck = std::chrono::milliseconds(100);
};

}  // namespace sluice::rpc::http2
