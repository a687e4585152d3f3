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

// The metrics of one name, by labels. Map elements do not move and are never removed, so metrics
// that were listed under the lock can be read without it.
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

template <typename Metric>
bool Hidden(const Metric&) {
  return false;
}

bool Hidden(const Gauge& gauge) { return gauge.hidden(); }

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
struct ListedFamily {
  const std::string* name;
  const std::string* help;
  std::vector<const typename std::map<MetricLabels, Metric>::value_type*> metrics;
};

template <typename Metric>
std::vector<ListedFamily<Metric>> List(const Families<Metric>& families) {
  std::vector<ListedFamily<Metric>> listed;
  for (const auto& [name, family] : families) {
    listed.push_back({&name, &family.help, {}});
    listed.back().metrics.reserve(family.metrics.size());
    for (const auto& metric : family.metrics) listed.back().metrics.push_back(&metric);
  }
  return listed;
}

template <typename Metric>
void Collect(const std::vector<ListedFamily<Metric>>& families, MetricType type,
             std::vector<prometheus::MetricFamily>& out) {
  for (const auto& family : families) {
    prometheus::MetricFamily& shown = AddFamily(*family.name, *family.help, type, out);
    shown.metric.reserve(family.metrics.size());
    for (const auto* metric : family.metrics) {
      if (Hidden(metric->second)) continue;
      ClientMetric& line = shown.metric.emplace_back();
      for (const auto& [label, value] : metric->first) line.label.push_back({label, value});
      Show(metric->second, line);
    }
  }
}

void Collect(const std::string& name, const ReadMetric& metric,
             std::vector<prometheus::MetricFamily>& out) {
  const bool is_counter = name.ends_with("_total");
  const MetricType type = is_counter ? MetricType::Counter : MetricType::Gauge;
  ClientMetric& line = AddFamily(name, metric.help, type, out).metric.emplace_back();
  (is_counter ? line.counter.value : line.gauge.value) = metric.read();
}

// All metrics at one moment.
struct Listing {
  std::vector<ListedFamily<Counter>> counters;
  std::vector<ListedFamily<Gauge>> gauges;
  std::vector<ListedFamily<Histogram>> histograms;
  std::vector<const std::map<std::string, ReadMetric>::value_type*> read;
};

}  // namespace

// Not thread-safe.
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
    read_.try_emplace(std::string(name), ReadMetric{std::string(help), std::move(read)});
  }

  Listing ListAll() const {
    Listing all{List(counters_), List(gauges_), List(histograms_), {}};
    for (const auto& metric : read_) all.read.push_back(&metric);
    return all;
  }

 private:
  // `arguments` returns the constructor arguments of a new metric.
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
  std::deque<CounterBlock> blocks_;  // deque elements do not move
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

// Writes the page without the lock, so that a check that looks up a metric does not wait for it.
std::string MetricsRegistry::Render() const {
  Listing listing;
  {
    MutexLock lock(mutex_);
    listing = state_->ListAll();
  }
  std::vector<prometheus::MetricFamily> families;
  Collect(listing.counters, MetricType::Counter, families);
  Collect(listing.gauges, MetricType::Gauge, families);
  Collect(listing.histograms, MetricType::Histogram, families);
  for (const auto* metric : listing.read) Collect(metric->first, metric->second, families);
  std::ostringstream page;
  prometheus::TextSerializer().Serialize(page, families);
  return std::move(page).str();
}

}  // namespace sluice
