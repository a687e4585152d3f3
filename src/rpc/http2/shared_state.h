// What all loops of one server share: its options and methods, limits on everything it holds, and
// its metrics.
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

// Connections that are open, or accepted and on their way to their loop.
class ConnectionCount {
 public:
  // False: there are `max` already.
  bool TryAdd(std::size_t max) SLUICE_EXCLUDES(mutex_);
  void Remove() SLUICE_EXCLUDES(mutex_);

  // Returns when there are none, or at `deadline`; whether there are none.
  bool WaitForNone(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar none_;
  std::size_t count_ SLUICE_GUARDED_BY(mutex_) = 0;
};

// How long a peer may take.
struct Times {
  Duration preface = std::chrono::seconds(10);     // for HTTP/2's preface
  Duration request = std::chrono::seconds(10);     // for a whole request, or a stream's message
  Duration stall = std::chrono::seconds(30);       // for the peer to read what we sent
  Duration keepalive = std::chrono::seconds(120);  // without a byte from the peer, before a PING
  Duration ping = std::chrono::seconds(20);        // for the answer to a PING
  Duration notice = std::chrono::seconds(1);       // for the answer to a PING when draining
  Duration linger = std::chrono::seconds(1);       // for the peer to close when all is sent
};

// Why a server turned a connection or a call away.
enum class Refusal : std::uint8_t {
  kConnections,  // too many connections
  kCalls,        // too many open calls
  kUnfinished,   // too many bytes of unfinished messages
  kRapidReset,   // calls reset as soon as they began
  kFlood,        // too many PING or SETTINGS frames
  kIncomplete,   // a request was not complete in time
  kStalled,      // the peer did not read, answer a PING, or begin with HTTP/2
  kCount,
};

class ServerMetrics {
 public:
  // `registry` may be null.
  explicit ServerMetrics(MetricsRegistry* registry);

  void Count(Refusal refusal) { refused_[static_cast<std::size_t>(refusal)]->Increment(); }

 private:
  const std::unique_ptr<MetricsRegistry> own_;  // where nobody looks
  MetricsRegistry& registry_;

 public:
  Gauge& connections;
  Counter& connections_total;
  Gauge& open_calls;
  Counter& moved_connections;

 private:
  std::array<Counter*, static_cast<std::size_t>(Refusal::kCount)> refused_;
};

struct SharedState {
  SharedState(Methods the_methods, const ServerOptions& the_options, const Times& the_times)
      : methods(std::move(the_methods)),
        options(the_options),
        times(the_times),
        metrics(the_options.metrics),
        free_calls(static_cast<std::int64_t>(the_options.max_calls)) {}

  // Bytes of messages that are not complete, or not wanted yet.
  static constexpr std::size_t kMaxUnfinishedBytes = 256 * 1024 * 1024;

  const Methods methods;
  const ServerOptions options;
  const Times times;
  ServerMetrics metrics;
  ConnectionCount connections;
  std::atomic<std::int64_t> free_calls;  // not open, nor lent to a loop's CallQuota
  std::atomic<std::size_t> unfinished_bytes = 0;
};

// A loop's share of the calls that a server may have open: borrowed and returned many at a time, so
// that loops seldom write to the same memory. Loop thread only.
class CallQuota {
 public:
  CallQuota(SharedState& shared, std::size_t loops);
  ~CallQuota() { shared_.free_calls.fetch_add(left_, std::memory_order_relaxed); }
  CallQuota(const CallQuota&) = delete;
  CallQuota& operator=(const CallQuota&) = delete;

  // False: the server has as many calls as it may.
  bool Take() {
    if (left_ <= 0 && !Borrow()) return false;
    --left_;
    return true;
  }

  // Even if the server has too many.
  void TakeAnyway() {
    if (!Take()) --left_;
  }

  void Return() {
    if (++left_ > 2 * chunk_) GiveBack();
  }

 private:
  bool Borrow();
  void GiveBack();

  SharedState& shared_;
  const std::int64_t chunk_;
  std::int64_t left_ = 0;
};

}  // namespace sluice::rpc::http2
