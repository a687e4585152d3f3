#include "http/connection_limit.h"

#include "base/log.h"
#include "metrics/metrics_registry.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kLogPause(1);

Counter* CounterOf(MetricsRegistry* metrics, std::string_view name, std::string_view help) {
  return metrics == nullptr ? nullptr : &metrics->CounterFor(name, help);
}

}  // namespace

ConnectionLimit::ConnectionLimit(std::size_t max_connections, MetricsRegistry* metrics)
    : max_(max_connections),
      refused_metric_(CounterOf(
          metrics, "sluice_http_connections_refused_total",
          "HTTP connections that got no place: they are answered 503, or a probe's answer.")),
      replaced_metric_(
          CounterOf(metrics, "sluice_http_connections_replaced_total",
                    "HTTP connections closed to make room for a new one or to free memory: idle, "
                    "slow to send a request, or slow to read an answer.")),
      requests_metric_(CounterOf(metrics, "sluice_http_requests_refused_total",
                                 "HTTP requests refused before they were read completely: "
                                 "malformed, too large, too slow.")) {}

void ConnectionLimit::Leave() {
  if (open_.fetch_sub(1, std::memory_order_relaxed) > 1) return;
  const MutexLock lock(mutex_);
  none_.NotifyAll();
}

bool ConnectionLimit::WaitForNone(SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return none_.WaitUntil(mutex_, deadline, [this] { return open() == 0; });
}

void ConnectionLimit::NoteRefused(SteadyTime now) {
  const auto refused = refused_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (refused_metric_ != nullptr) refused_metric_->Increment();
  SteadyTime next = next_log_.load(std::memory_order_relaxed);
  if (now < next || !next_log_.compare_exchange_strong(next, now + kLogPause)) return;
  spdlog::warn(
      "HTTP: {} connections are open and wait for answers; {} more got 503 so far "
      "(http.max_connections)",
      open(), refused);
}

void ConnectionLimit::NoteReplaced() {
  if (replaced_metric_ != nullptr) replaced_metric_->Increment();
}

void ConnectionLimit::NoteRefusedRequest() {
  if (requests_metric_ != nullptr) requests_metric_->Increment();
}

}  // namespace sluice
