// A number that can go up and down: a depth, a size, a state of 0 or 1, a time.
//
// Thread-safe. Created and owned by MetricsRegistry.
#pragma once

#include <atomic>
#include <cmath>
#include <limits>

namespace sluice {

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double by) { value_.fetch_add(by, std::memory_order_relaxed); }
  double Value() const { return value_.load(std::memory_order_relaxed); }

  // Leaves the gauge out of the page until it is set again: what it measures is gone.
  void Hide() { Set(std::numeric_limits<double>::quiet_NaN()); }
  bool hidden() const { return std::isnan(Value()); }

 private:
  std::atomic<double> value_{0};
};

}  // namespace sluice
