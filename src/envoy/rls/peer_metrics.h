// Metrics under the names of Envoy's rate limit service, for dashboards and alerts that were made
// for it: envoy.metric_names.
//
// Thread-safe.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "metrics/metrics_registry.h"
#include "rpc/status.h"

namespace sluice::envoy {

class PeerMetrics {
 public:
  // `metrics` must outlive this.
  explicit PeerMetrics(MetricsRegistry& metrics);

  // The counter of hits of one kind, such as "total_hits". Its labels are the domain, the first
  // entry of `rule` (key1), and the others (key2). Rules for which these are equal share a counter.
  Counter& HitsOf(std::string_view kind, std::string_view domain, std::string_view rule) const;

  // Each call of ShouldRateLimit ends in one of these.
  void OnAnswer(Duration took) const;
  void OnError(const rpc::Status& error) const;

 private:
  MetricsRegistry& metrics_;
  Counter& requests_;
  Histogram& response_time_;
  Counter& redis_errors_;
  Counter& service_errors_;
};

}  // namespace sluice::envoy
