// A number that can go up and down: a depth, a size, a state of 0 or 1, a time.
//
// Thread-safe. Created and owned by MetricsRegistry.
#pragma once

#include <atomic>

namespace sluice {

class Gauge {
 public:
  Gauge() = default;
  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;

  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double by) { value_.fetch_add(by, std::memory_order_relaxed); }
  double Value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

}  // namespace sluice
