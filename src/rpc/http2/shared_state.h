// The state that all loops of a server share: options, methods, limits and metrics.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "metrics/metrics_registry.h"
#include "rpc/method.h"
#include "rpc/server.h"

namespace sluice::rpc::http2 {

// Counts connections that have a place: open, or accepted but not yet added to their loop.
class ConnectionCount {
 public:
  // Counts a connection, or returns false if there are `max` already.
  bool TryAdd(std::size_t max) SLUICE_EXCLUDES(mutex_);
  void Remove() SLUICE_EXCLUDES(mutex_);

  // Waits until there are no connections. Returns false at `deadline`.
  bool WaitForNone(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar none_;
  std::size_t count_ SLUICE_GUARDED_BY(mutex_) = 0;
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
  Duration no_place = std::chrono::seconds(1);     // the life of a connection without a place
  // From when on a connection is stuck whose request is incomplete or whose output is not read.
  Duration stuck = std::chrono::milliseconds(100);
};

// Why a server rejected a connection or a call.
enum class Refusal : std::uint8_t {
  kConnections,  // too many connections, and no other could be closed
  kReplaced,     // a connection was closed to make room for another
  kCalls,        // too many open calls
  kUnfinished,   // too many bytes of unfinished messages
  kUntaken,      // too many bytes of responses that the peer does not take
  kRapidReset,   // calls reset right after they began, or in which the peer broke the protocol
  kFlood,        // too many PING or SETTINGS frames
  kIncomplete,   // a request was not complete in time
  kStalled,      // the peer did not read output, ack a PING or send SETTINGS in time
  kCount,
};

class ServerMetrics {
 public:
  // `registry` may be null.
  explicit ServerMetrics(MetricsRegistry* registry);

  // Also says so in the log, once a second at most.
  void Count(Refusal refusal);

 private:
  const std::unique_ptr<MetricsRegistry> own_;  // used if no registry is given
  MetricsRegistry& registry_;

 public:
  Gauge& connections;
  Counter& connections_total;
  Gauge& open_calls;
  Counter& moved_connections;

 private:
  std::array<Counter*, static_cast<std::size_t>(Refusal::kCount)> refused_;
  std::atomic<SteadyTime> next_log_{};
};

struct SharedState {
  SharedState(Methods the_methods, const ServerOptions& the_options, const Times& the_times)
      : methods(std::move(the_methods)),
        options(the_options),
        times(the_times),
        metrics(the_options.metrics),
        free_calls(static_cast<std::int64_t>(the_options.max_calls)) {}

  const Methods methods;
  const ServerOptions options;
  const Times times;
  ServerMetrics metrics;
  ConnectionCount connections;
  std::atomic<std::int64_t> free_calls;         // neither open nor held by a CallQuota
  std::atomic<std::size_t> buffered_bytes = 0;  // that MessageMemory counts
};

// A loop's share of max_calls, borrowed and returned in chunks, so that loops seldom write to the
// same memory. Loop thread only.
class CallQuota {
 public:
  CallQuota(SharedState& shared, std::size_t loops);
  ~CallQuota() { shared_.free_calls.fetch_add(left_, std::memory_order_relaxed); }
  CallQuota(const CallQuota&) = delete;
  CallQuota& operator=(const CallQuota&) = delete;

  // Counts a call, or returns false if the server has max_calls.
  bool Take() {
    if (left_ <= 0 && !Borrow()) return false;
    --left_;
    return true;
  }

  // Counts a call even if the server exceeds max_calls.
  void TakeAnyway() {
    if (!Take()) --left_;
  }

  void Return() {
    if (++left_ > 2 * chunk_) GiveBack();
  }

  // The number of calls that this loop could still take.
  std::int64_t left() const { return left_ + shared_.free_calls.load(std::memory_order_relaxed); }

 private:
  bool Borrow();
  void GiveBack();

  SharedState& shared_;
  const std::int64_t chunk_;
  std::int64_t left_ = 0;
};

}  // namespace sluice::rpc::http2
