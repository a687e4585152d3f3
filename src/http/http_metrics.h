// Counts what an HTTP server refuses.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace sluice {

class Counter;
class MetricsRegistry;

class HttpMetrics {
 public:
  // `metrics` may be null. Otherwise it must outlive this object.
  HttpMetrics(std::size_t max_connections, MetricsRegistry* metrics);

  // A connection got no place. Logs at most once a second.
  void OnRefused();
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  // A connection was closed for a new one, or because too much memory was used.
  void OnReplaced();

  // A request was rejected before it was read completely.
  void OnRefusedRequest();

 private:
  const std::size_t max_connections_;
  Counter* const refused_metric_;
  Counter* const replaced_metric_;
  Counter* const requests_metric_;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<SteadyTime> next_log_{};
};

}  // namespace sluice
