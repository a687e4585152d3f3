#include "http/http_state.h"

#include "base/log.h"

namespace sluice {

HttpMetrics::HttpMetrics(std::size_t max_connections, MetricsRegistry& metrics)
    : max_connections_(max_connections),
      refused_metric_(metrics.CounterFor(
          "sluice_http_connections_refused_total",
          "HTTP connections for which there was no room: their requests get 503, except probes.")),
      replaced_metric_(metrics.CounterFor(
          "sluice_http_connections_replaced_total",
          "HTTP connections closed to make room for a new one or to free memory: idle, "
          "slow to send a request, or slow to read an answer.")),
      requests_metric_(metrics.CounterFor("sluice_http_requests_refused_total",
                                          "HTTP requests refused before they were read completely: "
                                          "malformed, too large, too slow.")) {}

void HttpMetrics::OnRefused() {
  const auto refused = refused_.fetch_add(1, std::memory_order_relaxed) + 1;
  refused_metric_.Increment();
  const SteadyTime now = SteadyNow();
  SteadyTime next = next_log_.load(std::memory_order_relaxed);
  if (now < next || !next_log_.compare_exchange_strong(next, now + std::chrono::seconds(1))) return;
  spdlog::warn(
      "HTTP: {} connections are open and wait for answers; {} more got 503 so far "
      "(http.max_connections)",
      max_connections_, refused);
}

}  // namespace sluice
