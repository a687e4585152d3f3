// The metrics of hits, with the meanings that Envoy's rate limit service gives them.
//
// Not thread-safe: each io thread has its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/hash.h"
#include "metrics/metrics_registry.h"

namespace sluice::envoy {

class DescriptorCheck;

class HitCounters {
 public:
  // Hits beyond `near_limit_ratio` of a limit are near it. `metrics` must outlive this.
  HitCounters(MetricsRegistry& metrics, double near_limit_ratio)
      : metrics_(metrics), near_limit_ratio_(near_limit_ratio) {}

  // Counts the hits of a decided check.
  void Count(std::string_view domain, const DescriptorCheck& check);

 private:
  // Labels may contain values of entries, which callers choose, so memory is bounded.
  static constexpr std::size_t kMaxRows = 10'000;

  struct Row {
    Counter* total = nullptr;
    Counter* over = nullptr;
    Counter* over_by_cache = nullptr;
    Counter* near = nullptr;
    Counter* within = nullptr;
    Counter* shadow = nullptr;
  };

  Row& RowOf(std::string_view domain, std::string_view rule);
  Row MakeRow(std::string_view domain, std::string_view rule) const;
  void CountOver(Row& row, const DescriptorCheck& check) const;
  void CountWithin(Row& row, const DescriptorCheck& check) const;

  MetricsRegistry& metrics_;
  const double near_limit_ratio_;
  std::unordered_map<std::string, Row, StringHash, std::equal_to<>> rows_;
  std::string key_;  // scratch space for a lookup
};

}  // namespace sluice::envoy
