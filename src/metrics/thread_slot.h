// The index of a metric's cell that a thread writes to. Few threads share a slot, which reduces
// contention on cache lines.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice {

inline constexpr std::size_t kThreadSlots = 16;

// The slot of the calling thread, from 0 to kThreadSlots - 1. Constant for a thread.
inline std::size_t ThreadSlot() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t slot = next.fetch_add(1, std::memory_order_relaxed) % kThreadSlots;
  return slot;
}

}  // namespace sluice
