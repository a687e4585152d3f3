// The metrics of hits, with the meanings that Envoy's rate limit service gives them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/hash.h"
#include "metrics/metrics_registry.h"
#include "rpc/status.h"

namespace sluice::envoy {

class DescriptorCheck;

// Metrics under the names of Envoy's rate limit service, for dashboards and alerts that were made
// for that service. Used if envoy.metric_names is true. Thread-safe.
class PeerMetrics {
 public:
  // `metrics` must outlive this.
  explicit PeerMetrics(MetricsRegistry& metrics);

  // The counter of hits of one kind, such as "total_hits". Its labels are the domain, the first
  // entry of `rule` (key1), and the others (key2). Rules with equal labels share a counter.
  Counter& HitsOf(std::string_view kind, std::string_view domain, std::string_view rule) const;

  // Each call of ShouldRateLimit ends with one call of OnAnswer or OnError.
  void OnAnswer(Duration took) const;
  void OnError(const rpc::Status& error) const;

 private:
  MetricsRegistry& metrics_;
  Counter& requests_;
  Histogram& response_time_;
  Counter& redis_errors_;
  Counter& service_errors_;
};

// Not thread-safe: each io thread has its own.
class HitCounters {
 public:
  // Hits beyond `near_limit_ratio` of a limit count as near the limit. `peer`, if not null, has the
  // same metrics under other names. `metrics` and `peer` must outlive this.
  HitCounters(MetricsRegistry& metrics, double near_limit_ratio, const PeerMetrics* peer = nullptr)
      : metrics_(metrics), near_limit_ratio_(near_limit_ratio), peer_(peer) {}

  // Counts the hits of a decided check.
  void Count(std::string_view domain, const DescriptorCheck& check);

 private:
  // Labels may contain values of entries, which callers choose. So the number of rows is bounded.
  static constexpr std::size_t kMaxRows = 10'000;

  class Pair {
   public:
    Pair(Counter& counter, Counter* peer) : counter_(&counter), peer_(peer) {}
    void Increment(std::uint64_t hits) {
      counter_->Increment(hits);
      if (peer_ != nullptr) peer_->Increment(hits);
    }

   private:
    Counter* counter_;
    Counter* peer_;  // of PeerMetrics; may be null
  };
  struct Row {
    Pair total;
    Pair over;
    Pair over_by_cache;
    Pair near;
    Pair within;
    Pair shadow;
  };

  Row& RowOf(std::string_view domain, std::string_view rule);
  Row MakeRow(std::string_view domain, std::string_view rule) const;
  void CountOver(Row& row, const DescriptorCheck& check) const;
  void CountWithin(Row& row, const DescriptorCheck& check) const;

  MetricsRegistry& metrics_;
  const double near_limit_ratio_;
  const PeerMetrics* const peer_;
  std::unordered_map<std::string, Row, StringHash, std::equal_to<>> rows_;
  std::string key_;  // scratch space for a lookup
};

}  // namespace sluice::envoy
