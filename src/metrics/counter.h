// A number that only grows, cheap enough to count every check: threads add to cells of their own,
// and only reading sums them up.
//
// Thread-safe. Made by MetricsRegistry, whose blocks of cells must outlive it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "metrics/thread_slot.h"

namespace sluice {

// The cells of eight counters. Each line belongs to one slot of threads, so a thread that counts
// writes no cache line another thread writes, and a counter costs 128 bytes rather than 16 lines.
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
