// A number that only increases, cheap enough to count every check: each thread adds to a separate
// cell, and Value sums the cells.
//
// Thread-safe. Created by MetricsRegistry, which owns the cells.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "metrics/thread_slot.h"

namespace sluice {

// The cells of eight counters. Each line belongs to one thread slot, so that threads of different
// slots never write to the same cache line. A counter takes 128 bytes rather than 16 cache lines.
struct CounterBlock {
  static constexpr std::size_t kCounters = 8;

  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, kCounters> cells{};
  };
  std::array<Line, kThreadSlots> lines;
};

class Counter {
 public:
  // REQUIRES: `cell` < CounterBlock::kCounters, used by no other counter.
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

}  // namespace sluice
