#include "metrics/metrics_registry.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

namespace sluice {

namespace {

// The metrics of one name, by their labels. A map does not move what it holds.
template <typename Metric>
struct Family {
  std::string help;
  std::map<MetricLabels, Metric> metrics;
};

template <typename Metric>
using Families = std::map<std::string, Family<Metric>, std::less<>>;

template <typename Metric>
Family<Metric>& FamilyFor(Families<Metric>& families, std::string_view name,
                          std::string_view help) {
  auto family = families.find(name);
  if (family == families.end()) {
    family = families.emplace(name, Family<Metric>{std::string(help), {}}).first;
  }
  return family->second;
}

void Show(const Counter& counter, prometheus::ClientMetric& out) {
  out.counter.value = static_cast<double>(counter.Value());
}

void Show(const Gauge& gauge, prometheus::ClientMetric& out) { out.gauge.value = gauge.Value(); }

template <typename Metric>
void Collect(const Families<Metric>& families, prometheus::MetricType type,
             std::vector<prometheus::MetricFamily>& out) {
  for (const auto& [name, family] : families) {
    prometheus::MetricFamily& shown = out.emplace_back();
    shown.name = name;
    shown.help = family.help;
    shown.type = type;
    shown.metric.reserve(family.metrics.size());
    for (const auto& [labels, metric] : family.metrics) {
      prometheus::ClientMetric& line = shown.metric.emplace_back();
      for (const auto& [label, value] : labels) line.label.push_back({label, value});
      Show(metric, line);
    }
  }
}

}  // namespace

// Not thread-safe. A later kind of metric is one more map of families.
class MetricsRegistry::State {
 public:
  Counter& CounterFor(std::string_view name, std::string_view help, const MetricLabels& labels) {
    auto& counters = FamilyFor(counters_, name, help).metrics;
    const auto known = counters.find(labels);
    if (known != counters.end()) return known->second;

    const std::size_t cell = cells_used_++ % CounterBlock::kCounters;
    if (cell == 0) blocks_.emplace_back();
    return counters
        .emplace(std::piecewise_construct, std::forward_as_tuple(labels),
                 std::forward_as_tuple(blocks_.back(), cell))
        .first->second;
  }

  Gauge& GaugeFor(std::string_view name, std::string_view help, const MetricLabels& labels) {
    return FamilyFor(gauges_, name, help).metrics.try_emplace(labels).first->second;
  }

  std::vector<prometheus::MetricFamily> CollectAll() const {
    std::vector<prometheus::MetricFamily> all;
    Collect(counters_, prometheus::MetricType::Counter, all);
    Collect(gauges_, prometheus::MetricType::Gauge, all);
    return all;
  }

 private:
  std::deque<CounterBlock> blocks_;  // a deque does not move what it holds
  std::size_t cells_used_ = 0;
  Families<Counter> counters_;
  Families<Gauge> gauges_;
};

MetricsRegistry::MetricsRegistry() : state_(std::make_unique<State>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter& MetricsRegistry::CounterFor(std::string_view name, std::string_view help,
                                     const MetricLabels& labels) {
  MutexLock lock(mutex_);
  return state_->CounterFor(name, help, labels);
}

Gauge& MetricsRegistry::GaugeFor(std::string_view name, std::string_view help,
                                 const MetricLabels& labels) {
  MutexLock lock(mutex_);
  return state_->GaugeFor(name, help, labels);
}

std::string MetricsRegistry::Render() const {
  std::vector<prometheus::MetricFamily> families;
  {
    MutexLock lock(mutex_);
    families = state_->CollectAll();
  }
  std::ostringstream page;
  prometheus::TextSerializer().Serialize(page, families);
  return std::move(page).str();
}

}  // namespace sluice
