// A counter and a gauge, cheap enough to be changed by every check.
//
// Thread-safe. Created and owned by MetricsRegistry.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice {

// The number of thread slots. A counter or histogram has cells for each slot, and a thread writes
// only to the cells of its slot. Few threads share a slot, which reduces contention on cache lines.
inline constexpr std::size_t kThreadSlots = 16;

// The slot of the calling thread, from 0 to kThreadSlots - 1. Constant for a thread.
inline std::size_t ThreadSlot() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t slot = next.fetch_add(1, std::memory_order_relaxed) % kThreadSlots;
  return slot;
}

// The cells of eight counters. Each line belongs to one thread slot, so that threads of different
// slots never write to the same cache line. Since eight counters share each line, a counter takes
// 128 bytes. With a line of its own for each slot, it would take 1 KiB.
struct CounterBlock {
  static constexpr std::size_t kCounters = 8;

  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, kCounters> cells{};
  };
  std::array<Line, kThreadSlots> lines;
};

// A number that only increases. Each thread adds to the cell of its slot, and Value sums the cells.
class Counter {
 public:
  // REQUIRES: `cell` < CounterBlock::kCounters, and no other counter uses this cell of `block`.
  Counter(CounterBlock& block, std::size_t cell) : block_(block), cell_(cell) {}
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void Increment(std::uint64_t by = 1) {
    block_.lines[ThreadSlot()].cells[cell_].fetch_add(by, std::memory_order_relaxed);
  }

  std::uint64_t Value() const {
    std::uint64_t sum = 0;
    for (const auto& line : block_.lines) sum += line.cells[cell_].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  CounterBlock& block_;
  const std::size_t cell_;
};

// A number that can go up and down: a depth, a size, a state of 0 or 1, a time.
class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double by) { value_.fetch_add(by, std::memory_order_relaxed); }
  double Value() const { return value_.load(std::memory_order_relaxed); }

  // Leaves the gauge out of the page until it is set again. For a gauge that has nothing to
  // measure.
  void Hide() { Set(std::numeric_limits<double>::quiet_NaN()); }
  bool hidden() const { return std::isnan(Value()); }

 private:
  std::atomic<double> value_{0};
};

}  // namespace sluice
