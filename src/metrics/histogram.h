// A histogram of durations: counts each observation in the first bucket whose bound is at least as
// large as the observation. Observe makes two relaxed additions to the cells of the thread's slot.
// Read sums the cells.
//
// Thread-safe. Created and owned by MetricsRegistry.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "metrics/counter.h"

namespace sluice {

class Histogram {
 public:
  static constexpr std::size_t kMaxBounds = 22;
  using Duration = std::chrono::nanoseconds;

  struct Snapshot {
    std::array<std::uint64_t, kMaxBounds + 1> counts{};  // not cumulative; the last has no bound
    std::chrono::duration<double> sum{};
  };

  // REQUIRES: `bounds` is ascending and has at most kMaxBounds elements.
  explicit Histogram(std::span<const Duration> bounds) : bound_count_(bounds.size()) {
    std::copy(bounds.begin(), bounds.end(), bounds_.begin());
  }

  void Observe(Duration took) {
    const auto bound = std::lower_bound(bounds().begin(), bounds().end(), took);
    Cells& cells = slots_[ThreadSlot()];
    cells.counts[static_cast<std::size_t>(bound - bounds().begin())].fetch_add(
        1, std::memory_order_relaxed);
    cells.sum.fetch_add(took.count(), std::memory_order_relaxed);
  }

  std::span<const Duration> bounds() const { return {bounds_.data(), bound_count_}; }

  Snapshot Read() const {
    Snapshot all;
    for (const Cells& cells : slots_) {
      for (std::size_t i = 0; i <= bound_count_; ++i) {
        all.counts[i] += cells.counts[i].load(std::memory_order_relaxed);
      }
      all.sum += Duration(cells.sum.load(std::memory_order_relaxed));
    }
    return all;
  }

 private:
  struct alignas(64) Cells {
    std::array<std::atomic<std::uint64_t>, kMaxBounds + 1> counts{};
    std::atomic<Duration::rep> sum{0};
  };

  std::array<Duration, kMaxBounds> bounds_{};
  const std::size_t bound_count_;
  std::array<Cells, kThreadSlots> slots_;
};

}  // namespace sluice
