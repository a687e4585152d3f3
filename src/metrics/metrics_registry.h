// Every metric of this process, by name and labels, and the page that shows them to Prometheus.
//
// Thread-safe. References it hands out live as long as the registry. Looking a metric up takes a
// lock: do it once, where a metric begins to exist, not for every event.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "metrics/counter.h"
#include "metrics/gauge.h"
#include "metrics/histogram.h"

namespace sluice {

using MetricLabels = std::map<std::string, std::string>;

class MetricsRegistry {
 public:
  // A name has at most `max_series` sets of labels. Whoever asks for more gets the one whose labels
  // are all "other", so that no input (rules that come and go, in the end) can grow the page, or
  // the memory behind it, without bound.
  explicit MetricsRegistry(std::size_t max_series = 50'000);
  ~MetricsRegistry();

  // The counter of this name and these labels, made on first use. `name` is a Prometheus metric
  // name ending in "_total"; `help` counts when the name is first used.
  Counter& CounterFor(std::string_view name, std::string_view help,
                      const MetricLabels& labels = {});

  // As CounterFor; `name` does not end in "_total". 0 until set.
  Gauge& GaugeFor(std::string_view name, std::string_view help, const MetricLabels& labels = {});

  // As CounterFor; `name` ends in "_seconds". REQUIRES: `bounds` ascends, has at most
  // Histogram::kMaxBounds elements, and is the same whenever the name is used.
  Histogram& HistogramFor(std::string_view name, std::string_view help,
                          std::span<const Histogram::Duration> bounds,
                          const MetricLabels& labels = {});

  // A metric whose value is read when the page is made; a name ending in "_total" is a counter, any
  // other a gauge. `read` counts when the name is first used; it must be safe to call whenever
  // Render is.
  void ReadFrom(std::string_view name, std::string_view help, std::function<double()> read);

  // All metrics in Prometheus' text format, version 0.0.4.
  std::string Render() const;

 private:
  class State;

  mutable Mutex mutex_;
  const std::unique_ptr<State> state_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
