// A circuit breaker for one Redis node: opens when calls time out or fail, and closes when a
// probe has been answered in time. Shared by all io threads.
//
//   closed ──a call overdue, or most of a second's calls failed──▶ open ──probe sent──▶ half-open
//      ▲                                                            ▲                       │
//      │                                                            └───── probe fails ─────┤
//      └──────────────────────────────── probe answered in time ────────────────────────────┘
//
// Thread-safe. Checks read one atomic. Changes of the state are rare and take a lock.
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
  // `name` is the node's name in the log. `labels` are the labels of the metrics. `metrics` must
  // outlive the breaker.
  Breaker(std::string name, MetricsRegistry& metrics, const MetricLabels& labels = {});

  bool closed() const { return state_.load(std::memory_order_relaxed) == State::kClosed; }

  // Shows the breaker's state on the metrics page, or removes it from there.
  void Show(bool shown) SLUICE_EXCLUDES(mutex_);

  // If the breaker is closed, opens it and logs `cause`.
  void Open(std::string_view cause) SLUICE_EXCLUDES(mutex_);

  // Returns true if the calling thread must send a probe and report its outcome with OnProbe. Only
  // one probe is in flight at a time.
  bool TakeProbe() SLUICE_EXCLUDES(mutex_);
  void OnProbe(bool answered_in_time) SLUICE_EXCLUDES(mutex_);

  // The pause before the next probe. Short at first, since most failures are brief. Half of it is
  // random, so that the servers of a fleet do not all probe at the same time.
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
  std::atomic<int> failed_probes_{0};         // since the breaker opened; written under mutex_
};

// Counts the calls of one connection in the current second, and how many failed.
//
// Loop thread only.
class CallCounts {
 public:
  // Returns whether so many calls have failed that the breaker must open.
  bool Count(bool failed, SteadyTime now);

 private:
  static constexpr int kFewest = 20;  // fewer are not significant

  SteadyTime since_;
  int calls_ = 0;
  int failed_ = 0;
};

}  // namespace sluice::redis
