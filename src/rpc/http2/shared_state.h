// The state that all loops of a server share: options, methods, limits and metrics.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "metrics/metrics_registry.h"
#include "rpc/http2/server_options.h"
#include "rpc/method.h"

namespace sluice::rpc::http2 {

// Why a server refused a connection or a call, or ended it.
enum class Refusal : std::uint8_t {
  kConnections,  // too many connections, and none could be closed to make room
  kReplaced,     // a connection was closed to make room for another
  kCalls,        // too many open calls
  kUnfinished,   // too many bytes of unfinished messages
  kUnsent,       // too many response bytes that the peer has not taken
  kRapidReset,   // too many calls that the peer reset early or in which it broke the protocol
  kFlood,        // too many PING or SETTINGS frames, or a header block that is far too large
  kIncomplete,   // a request was not complete in time
  kStalled,      // the peer was too slow to read output, to ack a PING or to send SETTINGS
  kCount,
};

class ServerMetrics {
 public:
  // `registry` must outlive this object.
  explicit ServerMetrics(MetricsRegistry& registry);

  // Also logs the refusal, at most once a second.
  void Count(Refusal refusal);

  Gauge& connections;
  Counter& connections_total;
  Gauge& open_calls;

 private:
  std::array<Counter*, static_cast<std::size_t>(Refusal::kCount)> refused_;
  std::atomic<SteadyTime> next_log_{};
};

struct SharedState {
  const Methods methods;
  const ServerOptions options;
  const Times times;
  ServerMetrics metrics{*options.metrics};
  // How many calls may still begin. Can be below 0 while handlers still work on calls whose streams
  // have ended.
  std::atomic<std::int64_t> free_calls = static_cast<std::int64_t>(options.max_calls);
  std::atomic<std::size_t> buffered_bytes = 0;  // counted by MessageMemory
};

}  // namespace sluice::rpc::http2
