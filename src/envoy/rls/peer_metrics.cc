#include "envoy/rls/peer_metrics.h"

#include <array>
#include <string>
#include <utility>

#include "envoy/rules/entry_text.h"

namespace sluice::envoy {
namespace {

using std::chrono::milliseconds;

// The default buckets of Prometheus' client libraries, which Envoy's service uses.
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

}  // namespace sluice::envoy
