// Every metric of this process, by name and labels, and the page that shows them to Prometheus.
//
// Thread-safe. References it hands out live as long as the registry. Looking a metric up takes a
// lock: do it once, where a metric begins to exist, not for every event.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "metrics/counter.h"
#include "metrics/gauge.h"

namespace sluice {

using MetricLabels = std::map<std::string, std::string>;

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();

  // The counter of this name and these labels, made on first use. `name` is a Prometheus metric
  // name ending in "_total"; `help` counts when the name is first used.
  Counter& CounterFor(std::string_view name, std::string_view help,
                      const MetricLabels& labels = {});

  // As CounterFor; `name` does not end in "_total". 0 until set.
  Gauge& GaugeFor(std::string_view name, std::string_view help, const MetricLabels& labels = {});

  // All metrics in Prometheus' text format, version 0.0.4.
  std::string Render() const;

 private:
  class State;

  mutable Mutex mutex_;
  const std::unique_ptr<State> state_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
