// Limits the connections of an HTTP server and counts rejected connections and requests.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice {

class Counter;
class MetricsRegistry;

class ConnectionLimit {
 public:
  // `metrics` may be null. Otherwise it must outlive this object.
  ConnectionLimit(std::size_t max_connections, MetricsRegistry* metrics);

  void Enter() { open_.fetch_add(1, std::memory_order_relaxed); }
  void Leave() SLUICE_EXCLUDES(mutex_);
  bool full() const { return open_.load(std::memory_order_relaxed) >= max_; }
  std::size_t open() const { return open_.load(std::memory_order_relaxed); }

  // Waits until no connection is open. Returns false at `deadline`.
  bool WaitForNone(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

  // Counts a connection that got no place. Logs at most once a second.
  void NoteRefused(SteadyTime now);
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  // Counts a connection that was closed for a new one, or because too much memory was used.
  void NoteReplaced();

  // Counts a request that was rejected before it was read completely.
  void NoteRefusedRequest();

 private:
  const std::size_t max_;
  Counter* const refused_metric_;
  Counter* const replaced_metric_;
  Counter* const requests_metric_;
  std::atomic<std::size_t> open_ = 0;
  Mutex mutex_;
  CondVar none_;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<SteadyTime> next_log_{};
};

}  // namespace sluice
