// All metrics of this process, by name and labels, and the page that Prometheus reads.
//
// Thread-safe. Returned references are valid as long as the registry. Looking up a metric takes a
// lock, so look it up once and keep the reference.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "metrics/counter.h"
#include "metrics/histogram.h"

namespace sluice {

using MetricLabels = std::map<std::string, std::string>;

class MetricsRegistry {
 public:
  // A name has at most `max_series` sets of labels. Beyond that, lookups of new labels return the
  // metric whose labels are all "other", so that no input (such as changing rules) can grow the
  // page or its memory without bound.
  explicit MetricsRegistry(std::size_t max_series = 50'000);
  ~MetricsRegistry();

  // A registry that nobody reads, for objects whose owner has no registry.
  static MetricsRegistry& Unread();

  // The counter with this name and these labels, created on first use. `name` is a Prometheus
  // metric name that ends in "_total". Only names of counters may end in "_total". Only the first
  // `help` for a name is used.
  Counter& CounterFor(std::string_view name, std::string_view help,
                      const MetricLabels& labels = {});

  // Like CounterFor. `name` must not end in "_total". The gauge is 0 until set.
  Gauge& GaugeFor(std::string_view name, std::string_view help, const MetricLabels& labels = {});

  // Like CounterFor. `name` ends in "_seconds". REQUIRES: `bounds` is ascending, has at most
  // Histogram::kMaxBounds elements, and is the same in all calls with this name.
  Histogram& HistogramFor(std::string_view name, std::string_view help,
                          std::span<const Histogram::Duration> bounds,
                          const MetricLabels& labels = {});

  // Adds a metric whose value Render and Read get by calling `read`. The metric is a counter if
  // `name` ends in "_total", else a gauge. Only the first `read` for a name is used. `read` must be
  // thread-safe, and valid as long as Render or Read may be called.
  void ReadFrom(std::string_view name, std::string_view help, std::function<double()> read);

  struct Sample {
    const MetricLabels* labels;  // valid as long as the registry
    double value;
  };
  // The values of all counters or gauges with this name.
  std::vector<Sample> Read(std::string_view name) const;

  // All metrics in Prometheus' text format, version 0.0.4.
  std::string Render() const;

 private:
  struct State;

  mutable Mutex mutex_;
  const std::unique_ptr<State> state_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
