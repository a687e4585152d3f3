#include "store/redis/redis_metrics.h"

#include <algorithm>

namespace sluice::redis {

Counter& ErrorsOfKind(MetricsRegistry& registry, std::string_view kind) {
  return registry.CounterFor(
      "sluice_redis_errors_total",
      "Lost connections, failed connection attempts and errors of Redis, by kind.",
      {{"kind", std::string(kind)}});
}

RedisMetrics::RedisMetrics(MetricsRegistry& registry, const MetricLabels& labels)
    : script_calls_(registry.CounterFor("sluice_redis_script_calls_total",
                                        "Calls of the check script; under load, each carries many "
                                        "checks.")),
      reconnects_(registry.CounterFor("sluice_redis_reconnects_total",
                                      "Connections made after an earlier one was lost.")),
      failed_attempts_(ErrorsOfKind(registry, "connect")),
      losses_(ErrorsOfKind(registry, "lost")),
      other_errors_(ErrorsOfKind(registry, "other")),
      connected_(registry.GaugeFor("sluice_redis_connected",
                                   "1 while the loop's connection is ready, else 0.", labels)),
      waiting_(registry.GaugeFor("sluice_redis_waiting_checks",
                                 "Checks queued or sent, not yet answered.", labels)) {
  std::transform(kErrorKinds.begin(), kErrorKinds.end(), errors_.begin(),
                 [&](const ErrorKind& kind) { return &ErrorsOfKind(registry, kind.word); });
  connected_.Set(0);
  waiting_.Set(0);
}

void RedisMetrics::OnStopped() {
  stopped_ = true;
  connected_.Hide();
  waiting_.Hide();
}

void RedisMetrics::OnReady() {
  if (was_connected_) reconnects_.Increment();
  was_connected_ = true;
  connected_.Set(1);
}

void RedisMetrics::OnDown(std::string_view cause) {
  connected_.Set(0);
  losses_.Increment();
  CountKind(cause);
}

void RedisMetrics::OnFailedAttempt(std::string_view cause) {
  failed_attempts_.Increment();
  CountKind(cause);
}

void RedisMetrics::CountError(std::string_view error) {
  KindOf(error) ? CountKind(error) : other_errors_.Increment();
}

void RedisMetrics::CountKind(std::string_view cause) {
  if (const auto kind = KindOf(cause)) errors_[*kind]->Increment();
}

}  // namespace sluice::redis
