// Metrics of one Redis node, per io thread.
//
// Loop thread only. The registry must outlive this.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "metrics/metrics_registry.h"
#include "store/redis/redis_error.h"

namespace sluice::redis {

// The number of errors of one kind.
Counter& ErrorsOfKind(MetricsRegistry& registry, std::string_view kind);

class RedisMetrics {
 public:
  // `labels` name the io thread and, if there may be several nodes, the node.
  RedisMetrics(MetricsRegistry& registry, const MetricLabels& labels);

  void OnReady();
  // `cause`: see Connection::Owner.
  void OnDown(std::string_view cause);
  // The node is no longer used, so the metrics page does not show its state.
  void OnStopped();
  void OnFailedAttempt(std::string_view cause);

  // Counts an error: an error reply of Redis, or the error text of one entry of a script call. Both
  // have the same form.
  void CountError(std::string_view error);

  void CountScriptCall() { script_calls_.Increment(); }

  // The number of checks that wait for an answer.
  void ShowWaiting(std::size_t checks) {
    if (!stopped_) waiting_.Set(static_cast<double>(checks));
  }

 private:
  // If `cause` is an error of one of kErrorKinds, counts it under its kind.
  void CountKind(std::string_view cause);

  Counter& script_calls_;
  Counter& reconnects_;
  Counter& failed_attempts_;
  Counter& losses_;
  Counter& other_errors_;
  std::array<Counter*, kErrorKinds.size()> errors_;  // by kind
  Gauge& connected_;
  Gauge& waiting_;
  bool was_connected_ = false;
  bool stopped_ = false;
};

}  // namespace sluice::redis
