#include "metrics/metrics_registry.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <limits>
#include <sstream>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

// A metric, or the function that reads its value.
using Metric = std::variant<std::unique_ptr<Counter>, std::unique_ptr<Gauge>,
                            std::unique_ptr<Histogram>, std::function<double()>>;

// The metrics of one name, by labels. Map elements do not move and are never removed, so metrics
// that were listed under the lock can be read without it.
struct Family {
  std::string help;
  MetricType type;
  std::map<MetricLabels, Metric> metrics;
};

void Show(const std::unique_ptr<Counter>& counter, ClientMetric& out) {
  out.counter.value = static_cast<double>(counter->Value());
}

void Show(const std::unique_ptr<Gauge>& gauge, ClientMetric& out) {
  out.gauge.value = gauge->Value();
}

void Show(const std::unique_ptr<Histogram>& histogram, ClientMetric& out) {
  const Histogram::Snapshot snapshot = histogram->Read();
  const auto bounds = histogram->bounds();
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    cumulative += snapshot.counts[i];
    const bool bounded = i < bounds.size();
    out.histogram.bucket.push_back(
        {.cumulative_count = cumulative,
         .upper_bound = bounded ? std::chrono::duration<double>(bounds[i]).count()
                                : std::numeric_limits<double>::infinity()});
  }
  out.histogram.sample_count = cumulative;
  out.histogram.sample_sum = snapshot.sum.count();
}

void Show(const std::function<double()>& read, ClientMetric& out) {
  out.counter.value = out.gauge.value = read();
}

bool IsHidden(const Metric& metric) {
  const auto* const gauge = std::get_if<std::unique_ptr<Gauge>>(&metric);
  return gauge != nullptr && (*gauge)->hidden();
}

// The metrics of one name at one moment.
struct ListedFamily {
  const std::string* name;
  const Family* family;
  std::vector<const std::map<MetricLabels, Metric>::value_type*> metrics;
};

ListedFamily List(const std::pair<const std::string, Family>& named) {
  ListedFamily listed{&named.first, &named.second, {}};
  listed.metrics.reserve(named.second.metrics.size());
  for (const auto& metric : named.second.metrics) listed.metrics.push_back(&metric);
  return listed;
}

prometheus::MetricFamily Collect(const ListedFamily& listed) {
  prometheus::MetricFamily shown{*listed.name, listed.family->help, listed.family->type, {}};
  shown.metric.reserve(listed.metrics.size());
  for (const auto* metric : listed.metrics) {
    if (IsHidden(metric->second)) continue;
    ClientMetric& line = shown.metric.emplace_back();
    for (const auto& [label, value] : metric->first) line.label.push_back({label, value});
    std::visit([&](const auto& it) { Show(it, line); }, metric->second);
  }
  return shown;
}

}  // namespace

// Not thread-safe.
struct MetricsRegistry::State {
  Family& FamilyOf(std::string_view name, std::string_view help, MetricType type) {
    auto family = families.find(name);
    if (family == families.end()) {
      family = families.try_emplace(std::string(name), Family{std::string(help), type, {}}).first;
    }
    return family->second;
  }

  template <typename T, typename Make>
  T& MetricFor(Family& family, const MetricLabels& labels, const Make& make) {
    auto known = family.metrics.find(labels);
    if (known == family.metrics.end()) {
      MetricLabels kept = labels;
      if (family.metrics.size() >= max_series) {
        for (auto& [label, value] : kept) value = "other";
      }
      bool is_new = false;
      std::tie(known, is_new) = family.metrics.try_emplace(std::move(kept));
      if (is_new) known->second = make();
    }
    return *std::get<std::unique_ptr<T>>(known->second);
  }

  const std::size_t max_series;
  std::deque<CounterBlock> blocks;  // deque elements do not move
  std::size_t cells_used = 0;
  std::map<std::string, Family, std::less<>> families;
};

MetricsRegistry::MetricsRegistry(std::size_t max_series)
    : state_(new State{.max_series = max_series}) {}
MetricsRegistry::~MetricsRegistry() = default;

MetricsRegistry& MetricsRegistry::Unread() {
  static MetricsRegistry unread;
  return unread;
}

Counter& MetricsRegistry::CounterFor(std::string_view name, std::string_view help,
                                     const MetricLabels& labels) {
  MutexLock lock(mutex_);
  State& state = *state_;
  return state.MetricFor<Counter>(
      state.FamilyOf(name, help, MetricType::Counter), labels, [&state] {
        const std::size_t cell = state.cells_used++ % CounterBlock::kCounters;
        if (cell == 0) state.blocks.emplace_back();
        return std::make_unique<Counter>(state.blocks.back(), cell);
      });
}

Gauge& MetricsRegistry::GaugeFor(std::string_view name, std::string_view help,
                                 const MetricLabels& labels) {
  MutexLock lock(mutex_);
  return state_->MetricFor<Gauge>(state_->FamilyOf(name, help, MetricType::Gauge), labels,
                                  [] { return std::make_unique<Gauge>(); });
}

Histogram& MetricsRegistry::HistogramFor(std::string_view name, std::string_view help,
                                         std::span<const Histogram::Duration> bounds,
                                         const MetricLabels& labels) {
  MutexLock lock(mutex_);
  return state_->MetricFor<Histogram>(state_->FamilyOf(name, help, MetricType::Histogram), labels,
                                      [&] { return std::make_unique<Histogram>(bounds); });
}

void MetricsRegistry::ReadFrom(std::string_view name, std::string_view help,
                               std::function<double()> read) {
  const MetricType type = name.ends_with("_total") ? MetricType::Counter : MetricType::Gauge;
  MutexLock lock(mutex_);
  state_->FamilyOf(name, help, type).metrics.try_emplace(MetricLabels(), std::move(read));
}

std::vector<MetricsRegistry::Sample> MetricsRegistry::Read(std::string_view name) const {
  ListedFamily listed{};
  {
    MutexLock lock(mutex_);
    const auto named = state_->families.find(name);
    if (named == state_->families.end()) return {};
    listed = List(*named);
  }
  std::vector<Sample> samples;
  for (const auto* metric : listed.metrics) {
    if (IsHidden(metric->second)) continue;
    ClientMetric shown;
    std::visit([&](const auto& it) { Show(it, shown); }, metric->second);
    const bool counts = listed.family->type == MetricType::Counter;
    samples.push_back({&metric->first, counts ? shown.counter.value : shown.gauge.value});
  }
  return samples;
}

// Writes the page without the lock, so that a check that looks up a metric does not wait for the
// page.
std::string MetricsRegistry::Render() const {
  std::vector<ListedFamily> listed;
  {
    MutexLock lock(mutex_);
    for (const auto& named : state_->families) listed.push_back(List(named));
  }
  std::vector<prometheus::MetricFamily> families;
  for (const ListedFamily& family : listed) families.push_back(Collect(family));
  std::ostringstream page;
  prometheus::TextSerializer().Serialize(page, families);
  return std::move(page).str();
}

}  // namespace sluice
