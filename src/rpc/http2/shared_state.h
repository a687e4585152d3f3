// What all loops of one server share: its options and methods, limits on everything it holds, and
// its metrics.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

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

  // Returns when there are none, or at `deadline`.
  void WaitForNone(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar none_;
  std::size_t count_ SLUICE_GUARDED_BY(mutex_) = 0;
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

 private:
  std::array<Counter*, static_cast<std::size_t>(Refusal::kCount)> refused_;
};

struct SharedState {
  SharedState(Methods the_methods, const ServerOptions& the_options)
      : methods(std::move(the_methods)),
        options(the_options),
        metrics(the_options.metrics),
        free_calls(static_cast<std::int64_t>(the_options.max_calls)) {}

  // Bytes of messages that are not complete, or not wanted yet.
  static constexpr std::size_t kMaxUnfinishedBytes = 256 * 1024 * 1024;

  const Methods methods;
  const ServerOptions options;
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
