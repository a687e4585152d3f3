#include "store/redis/redis_metrics.h"

#include <algorithm>

#include "store/redis/redis_error.h"

namespace sluice::redis {
namespace {

Counter& Errors(MetricsRegistry& registry, std::string_view kind) {
  return registry.CounterFor("sluice_redis_errors_total",
                             "Connections lost or not made, and errors Redis answered with.",
                             {{"kind", std::string(kind)}});
}

}  // namespace

RedisMetrics::RedisMetrics(MetricsRegistry& registry, const MetricLabels& labels)
    : script_calls_(registry.CounterFor("sluice_redis_script_calls_total",
                                        "Calls of the check script sent; each carries many checks "
                                        "under load.")),
      reconnects_(registry.CounterFor("sluice_redis_reconnects_total",
                                      "Connections made after one was lost.")),
      failed_attempts_(Errors(registry, "connect")),
      losses_(Errors(registry, "lost")),
      other_errors_(Errors(registry, "other")),
      late_answers_(registry.CounterFor("sluice_redis_late_answers_total",
                                        "Replies to checks that had failed by then.")),
      unknown_outcomes_(registry.CounterFor(
          "sluice_redis_unknown_outcomes_total",
          "Checks sent of which it is not known whether they were charged: no reply came.")),
      lost_undos_(registry.CounterFor(
          "sluice_redis_lost_undos_total",
          "Counters that stay charged for what was not admitted, as it cannot be taken back.")),
      connected_(registry.GaugeFor("sluice_redis_connected",
                                   "1 while the loop's connection is ready, else 0.", labels)),
      waiting_(registry.GaugeFor("sluice_redis_waiting_checks",
                                 "Checks gathered or sent, not yet answered.", labels)) {
  std::transform(kErrorWords.begin(), kErrorWords.end(), errors_.begin(),
                 [&](std::string_view word) { return &Errors(registry, word); });
}

void RedisMetrics::OnReady() {
  if (was_connected_) reconnects_.Increment();
  was_connected_ = true;
  connected_.Set(1);
}

void RedisMetrics::OnDown() {
  connected_.Set(0);
  losses_.Increment();
}

void RedisMetrics::CountError(std::string_view error) {
  const auto word = std::find(kErrorWords.begin(), kErrorWords.end(), WordOf(error));
  if (word == kErrorWords.end()) return other_errors_.Increment();
  errors_[static_cast<std::size_t>(word - kErrorWords.begin())]->Increment();
}

}  // namespace sluice::redis
