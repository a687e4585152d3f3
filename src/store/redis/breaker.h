// Whether one Redis server is worth asking: opens when calls take too long or fail, and closes when
// a probe has been answered in time. Shared by the nodes of all io threads.
//
//   closed ──a call overdue, or half of a second's failed──▶ open ──probe sent──▶ half-open
//      ▲                                                      ▲  └─────probe fails─────┘
//      └────────────────────── probe answered in time ────────┴──────────────┘
//
// Thread-safe. Checks read one atomic; all else is rare and takes a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "metrics/metrics_registry.h"

namespace sluice::redis {

class Breaker {
 public:
  // `name` is that of the server, for the log; `labels` are those of its metrics. `metrics` must
  // outlive the breaker.
  Breaker(std::string name, MetricsRegistry& metrics, const MetricLabels& labels = {});

  bool closed() const { return state_.load(std::memory_order_relaxed) == State::kClosed; }

  // Opens, because of `cause`. No effect unless closed.
  void Open(std::string_view cause) SLUICE_EXCLUDES(mutex_);

  // Whether the caller is to send the probe: one does at a time. It must tell the outcome.
  bool TakeProbe() SLUICE_EXCLUDES(mutex_);
  void OnProbe(bool answered_in_time) SLUICE_EXCLUDES(mutex_);

  // How long to wait before the next probe: little at first, for most failures are a moment's. Half
  // of it is random, so that a fleet does not probe all at once.
  Duration ProbePause(std::uint64_t random) const;

 private:
  enum class State { kClosed = 0, kHalfOpen = 1, kOpen = 2 };
  static constexpr Duration kFirstPause = std::chrono::milliseconds(10);
  static constexpr int kDoublings = 4;

  void Enter(State state) SLUICE_REQUIRES(mutex_);

  const std::string name_;
  Gauge& shown_;
  Counter& openings_;
  Mutex mutex_;
  std::atomic<State> state_{State::kClosed};  // written under mutex_
  std::atomic<int> failed_probes_{0};         // since it opened; written under mutex_
};

// The calls of one connection in the present second, and how many of them failed.
//
// Loop thread only.
class CallTally {
 public:
  // Returns whether so many have failed that the server is not worth asking.
  bool Count(bool failed, SteadyTime now);

 private:
  static constexpr int kFewest = 20;  // fewer say nothing

  SteadyTime since_;
  int calls_ = 0;
  int failed_ = 0;
};

}  // namespace sluice::redis
