// How many connections an HTTP server may have, and what became of those beyond.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace sluice {

class Counter;
class MetricsRegistry;

class ConnectionLimit {
 public:
  // `metrics`, if not null, must outlive this.
  ConnectionLimit(std::size_t max_connections, MetricsRegistry* metrics);

  void Enter() { open_.fetch_add(1, std::memory_order_relaxed); }
  void Leave() { open_.fetch_sub(1, std::memory_order_relaxed); }
  bool full() const { return open_.load(std::memory_order_relaxed) >= max_; }
  std::size_t open() const { return open_.load(std::memory_order_relaxed); }

  // A connection was refused, since none was idle: counted, and logged once a second at most.
  void NoteRefused(SteadyTime now);
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  // An idle one was closed for a new one.
  void NoteReplaced();

 private:
  const std::size_t max_;
  Counter* const refused_metric_;
  Counter* const replaced_metric_;
  std::atomic<std::size_t> open_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<SteadyTime> next_log_{};
};

}  // namespace sluice
