#include "metrics/metrics_registry.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

namespace sluice {

struct MetricsRegistry::CounterFamily {
  std::string help;
  std::map<MetricLabels, Counter> counters;
};

// Not thread-safe. A later kind of metric is one more map of families and one more loop in Collect.
class MetricsRegistry::State final : public prometheus::Collectable {
 public:
  Counter& CounterFor(std::string_view name, std::string_view help, const MetricLabels& labels) {
    auto family = counters_.find(name);
    if (family == counters_.end()) {
      family = counters_.emplace(name, CounterFamily{std::string(help), {}}).first;
    }
    auto& counters = family->second.counters;
    const auto known = counters.find(labels);
    if (known != counters.end()) return known->second;

    const std::size_t cell = cells_used_++ % CounterBlock::kCounters;
    if (cell == 0) blocks_.emplace_back();
    return counters
        .emplace(std::piecewise_construct, std::forward_as_tuple(labels),
                 std::forward_as_tuple(blocks_.back(), cell))
        .first->second;
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    families.reserve(counters_.size());
    for (const auto& [name, family] : counters_) {
      auto& out = families.emplace_back();
      out.name = name;
      out.help = family.help;
      out.type = prometheus::MetricType::Counter;
      out.metric.reserve(family.counters.size());
      for (const auto& [labels, counter] : family.counters) {
        auto& metric = out.metric.emplace_back();
        for (const auto& [label, value] : labels) metric.label.push_back({label, value});
        metric.counter.value = static_cast<double>(counter.Value());
      }
    }
    return families;
  }

 private:
  std::deque<CounterBlock> blocks_;  // a deque does not move what it holds
  std::size_t cells_used_ = 0;
  std::map<std::string, CounterFamily, std::less<>> counters_;
};

MetricsRegistry::MetricsRegistry() : state_(std::make_unique<State>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter& MetricsRegistry::CounterFor(std::string_view name, std::string_view help,
                                     const MetricLabels& labels) {
  MutexLock lock(mutex_);
  return state_->CounterFor(name, help, labels);
}

std::string MetricsRegistry::Render() const {
  std::vector<prometheus::MetricFamily> families;
  {
    MutexLock lock(mutex_);
    families = state_->Collect();
  }
  std::ostringstream page;
  prometheus::TextSerializer().Serialize(page, families);
  return std::move(page).str();
}

}  // namespace sluice
