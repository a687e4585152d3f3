// Which of a metric's cells a thread writes. Few threads share a slot, so that threads that count
// the same thing do not fight for a cache line.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice {

inline constexpr std::size_t kThreadSlots = 16;

// The calling thread's, 0 to kThreadSlots - 1; always the same.
inline std::size_t ThreadSlot() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t slot = next.fetch_add(1, std::memory_order_relaxed) % kThreadSlots;
  return slot;
}

}  // namespace sluice
