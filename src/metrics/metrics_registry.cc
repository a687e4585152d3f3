#include "metrics/metrics_registry.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <limits>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

// The metrics of one name, by their labels. A map does not move what it holds.
template <typename Metric>
struct Family {
  std::string help;
  std::map<MetricLabels, Metric> metrics;
};

template <typename Metric>
using Families = std::map<std::string, Family<Metric>, std::less<>>;

struct ReadMetric {
  std::string help;
  std::function<double()> read;
};

void Show(const Counter& counter, ClientMetric& out) {
  out.counter.value = static_cast<double>(counter.Value());
}

void Show(const Gauge& gauge, ClientMetric& out) { out.gauge.value = gauge.Value(); }

void Show(const Histogram& histogram, ClientMetric& out) {
  const Histogram::Snapshot snapshot = histogram.Read();
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) {
    cumulative += snapshot.counts[i];
    const bool bounded = i < histogram.bounds().size();
    out.histogram.bucket.push_back(
        {.cumulative_count = cumulative,
         .upper_bound = bounded ? std::chrono::duration<double>(histogram.bounds()[i]).count()
                                : std::numeric_limits<double>::infinity()});
  }
  out.histogram.sample_count = cumulative;
  out.histogram.sample_sum = snapshot.sum.count();
}

prometheus::MetricFamily& AddFamily(std::string_view name, std::string_view help, MetricType type,
                                    std::vector<prometheus::MetricFamily>& out) {
  prometheus::MetricFamily& family = out.emplace_back();
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

template <typename Metric>
void Collect(const Families<Metric>& families, MetricType type,
             std::vector<prometheus::MetricFamily>& out) {
  for (const auto& [name, family] : families) {
    prometheus::MetricFamily& shown = AddFamily(name, family.help, type, out);
    shown.metric.reserve(family.metrics.size());
    for (const auto& [labels, metric] : family.metrics) {
      ClientMetric& line = shown.metric.emplace_back();
      for (const auto& [label, value] : labels) line.label.push_back({label, value});
      Show(metric, line);
    }
  }
}

}  // namespace

// Not thread-safe. A later kind of metric is one more map of families.
class MetricsRegistry::State {
 public:
  explicit State(std::size_t max_series) : max_series_(max_series) {}

  Counter& CounterFor(std::string_view name, std::string_view help, const MetricLabels& labels) {
    return MetricFor(counters_, name, help, labels, [this] {
      const std::size_t cell = cells_used_++ % CounterBlock::kCounters;
      if (cell == 0) blocks_.emplace_back();
      return std::tuple<CounterBlock&, std::size_t>(blocks_.back(), cell);
    });
  }

  Gauge& GaugeFor(std::string_view name, std::string_view help, const MetricLabels& labels) {
    return MetricFor(gauges_, name, help, labels, [] { return std::tuple<>(); });
  }

  Histogram& HistogramFor(std::string_view name, std::string_view help,
                          std::span<const Histogram::Duration> bounds, const MetricLabels& labels) {
    return MetricFor(histograms_, name, help, labels, [&] { return std::tuple(bounds); });
  }

  void ReadFrom(std::string_view name, std::string_view help, std::function<double()> read) {
    read_.insert_or_assign(std::string(name), ReadMetric{std::string(help), std::move(read)});
  }

  std::vector<prometheus::MetricFamily> CollectAll() const {
    std::vector<prometheus::MetricFamily> all;
    Collect(counters_, MetricType::Counter, all);
    Collect(gauges_, MetricType::Gauge, all);
    Collect(histograms_, MetricType::Histogram, all);
    for (const auto& [name, metric] : read_) {
      const bool is_counter = name.ends_with("_total");
      ClientMetric& line =
          AddFamily(name, metric.help, is_counter ? MetricType::Counter : MetricType::Gauge, all)
              .metric.emplace_back();
      (is_counter ? line.counter.value : line.gauge.value) = metric.read();
    }
    return all;
  }

 private:
  // `arguments` gives what a new metric is constructed from.
  template <typename Metric, typename Arguments>
  Metric& MetricFor(Families<Metric>& families, std::string_view name, std::string_view help,
                    const MetricLabels& labels, Arguments arguments) {
    auto family = families.find(name);
    if (family == families.end()) {
      family = families.emplace(name, Family<Metric>{std::string(help), {}}).first;
    }
    auto& metrics = family->second.metrics;
    if (const auto known = metrics.find(labels); known != metrics.end()) return known->second;
    MetricLabels kept = labels;
    if (metrics.size() >= max_series_) {
      for (auto& [label, value] : kept) value = "other";
      if (const auto known = metrics.find(kept); known != metrics.end()) return known->second;
    }
    return metrics
        .emplace(std::piecewise_construct, std::forward_as_tuple(std::move(kept)), arguments())
        .first->second;
  }

  const std::size_t max_series_;
  std::deque<CounterBlock> blocks_;  // a deque does not move what it holds
  std::size_t cells_used_ = 0;
  Families<Counter> counters_;
  Families<Gauge> gauges_;
  Families<Histogram> histograms_;
  std::map<std::string, ReadMetric> read_;
};

MetricsRegistry::MetricsRegistry(std::size_t max_series)
    : state_(std::make_unique<State>(max_series)) {}
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

Histogram& MetricsRegistry::HistogramFor(std::string_view name, std::string_view help,
                                         std::span<const Histogram::Duration> bounds,
                                         const MetricLabels& labels) {
  MutexLock lock(mutex_);
  return state_->HistogramFor(name, help, bounds, labels);
}

void MetricsRegistry::ReadFrom(std::string_view name, std::string_view help,
                               std::function<double()> read) {
  MutexLock lock(mutex_);
  state_->ReadFrom(name, help, std::move(read));
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
