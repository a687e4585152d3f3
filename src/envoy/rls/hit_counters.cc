#include "envoy/rls/hit_counters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "envoy/rls/descriptor_check.h"

namespace sluice::envoy {
namespace {

using std::chrono::milliseconds;

// The buckets of Envoy's service: the default buckets of Prometheus' client libraries.
constexpr std::array<Histogram::Duration, 11> kBounds{
    milliseconds(5),     milliseconds(10),    milliseconds(25),    milliseconds(50),
    milliseconds(100),   milliseconds(250),   milliseconds(500),   milliseconds(1'000),
    milliseconds(2'500), milliseconds(5'000), milliseconds(10'000)};

MetricLabels Method() { return {{"grpc_method", "ShouldRateLimit"}}; }

Counter& ErrorsOf(MetricsRegistry& metrics, const char* type) {
  return metrics.CounterFor("ratelimit_service_should_rate_limit_error",
                            "Calls of ShouldRateLimit that failed.", {{"err_type", type}});
}

}  // namespace

PeerMetrics::PeerMetrics(MetricsRegistry& metrics)
    : metrics_(metrics),
      requests_(
          metrics.CounterFor("ratelimit_service_total_requests", "Calls, by method.", Method())),
      response_time_(metrics.HistogramFor("ratelimit_service_response_time_seconds",
                                          "Time from reading a request to returning its answer.",
                                          kBounds, Method())),
      redis_errors_(ErrorsOf(metrics, "redis_error")),
      service_errors_(ErrorsOf(metrics, "service_error")) {}

Counter& PeerMetrics::HitsOf(std::string_view kind, std::string_view domain,
                             std::string_view rule) const {
  const std::vector<std::string> entries = SplitEntries(rule);  // keys and values
  std::array<std::string, 2> keys;
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    std::string& key = keys[i == 0 ? 0 : 1];
    if (!key.empty()) key += '.';
    key += entries[i];
    if (!entries[i + 1].empty()) key += "_" + entries[i + 1];
  }
  MetricLabels labels{{"domain", std::string(domain)}, {"key1", std::move(keys[0])}};
  if (!keys[1].empty()) labels["key2"] = std::move(keys[1]);
  return metrics_.CounterFor("ratelimit_service_rate_limit_" + std::string(kind),
                             "Hits, by domain and descriptor.", labels);
}

void PeerMetrics::OnAnswer(Duration took) const {
  requests_.Increment();
  response_time_.Observe(took);
}

void PeerMetrics::OnError(const rpc::Status& error) const {
  requests_.Increment();
  const bool of_store = error.code == rpc::StatusCode::kUnavailable;
  (of_store ? redis_errors_ : service_errors_).Increment();
}

void HitCounters::Count(std::string_view domain, const DescriptorCheck& check) {
  if (check.is_negative() || check.hits() == 0) return;
  Row& row = RowOf(domain, check.metric());
  row.total.Increment(check.hits());
  check.is_over() ? CountOver(row, check) : CountWithin(row, check);
}

void HitCounters::CountOver(Row& row, const DescriptorCheck& check) const {
  row.over.Increment(check.hits());
  if (check.from_cache()) row.over_by_cache.Increment(check.hits());
  if (check.status().code() == Response::OK) row.shadow.Increment(check.hits());
}

void HitCounters::CountWithin(Row& row, const DescriptorCheck& check) const {
  row.within.Increment(check.hits());
  const auto& status = check.status();
  if (!status.has_current_limit()) return;
  const double limit = status.current_limit().requests_per_unit();
  const double near = std::floor(limit * near_limit_ratio_);
  const double beyond = limit - status.limit_remaining() - near;
  if (beyond <= 0) return;
  row.near.Increment(std::min(check.hits(), static_cast<std::uint64_t>(beyond)));
}

HitCounters::Row& HitCounters::RowOf(std::string_view domain, std::string_view rule) {
  key_.assign(domain).append(1, '\0').append(rule);
  if (const auto found = rows_.find(key_); found != rows_.end()) return found->second;
  if (rows_.size() >= kMaxRows) rows_.clear();
  return rows_.emplace(key_, MakeRow(domain, rule)).first->second;
}

HitCounters::Row HitCounters::MakeRow(std::string_view domain, std::string_view rule) const {
  const MetricLabels labels{{"domain", std::string(domain)}, {"rule", std::string(rule)}};
  const auto counter = [&](std::string_view name, std::string_view help, std::string_view kind) {
    Counter* const peer = peer_ == nullptr ? nullptr : &peer_->HitsOf(kind, domain, rule);
    return Pair(metrics_.CounterFor(name, help, labels), peer);
  };
  return {
      .total = counter("sluice_envoy_hits_total", "Hits of Envoy's descriptors.", "total_hits"),
      .over = counter("sluice_envoy_over_limit_hits_total", "Hits that were over the limit.",
                      "over_limit"),
      .over_by_cache = counter("sluice_envoy_over_limit_cached_hits_total",
                               "Over the limit, and denied without asking the store.",
                               "over_limit_with_local_cache"),
      .near = counter("sluice_envoy_near_limit_hits_total",
                      "Within the limit, but beyond envoy.near_limit_ratio of it.", "near_limit"),
      .within =
          counter("sluice_envoy_within_limit_hits_total", "Within the limit.", "within_limit"),
      .shadow = counter("sluice_envoy_shadow_mode_hits_total",
                        "Over the limit, but allowed by shadow_mode.", "shadow_mode")};
}

}  // namespace sluice::envoy
