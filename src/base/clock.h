// Time. Nothing outside this file asks the operating system what time it is: code takes a Time as a
// value or a Clock to ask, so that tests decide how time goes.
#pragma once

#include <atomic>
#include <chrono>

namespace sluice {

using Duration = std::chrono::microseconds;

// Wall-clock time, 1 µs steps since the Unix epoch: the scale of counters and of Redis' TIME.
using Time = std::chrono::sys_time<Duration>;

// Monotonic time of this process, for deadlines and latencies. Never leaves the process.
using SteadyTime = std::chrono::steady_clock::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;

  // The system's clock; lives for ever.
  static const Clock& System();
};

// A clock that stands still until told otherwise. Thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start) : now_(start.time_since_epoch().count()) {}

  Time Now() const override { return Time(Duration(now_.load(std::memory_order_relaxed))); }
  void Set(Time now) { now_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
  void Advance(Duration by) { now_.fetch_add(by.count(), std::memory_order_relaxed); }

 private:
  std::atomic<Duration::rep> now_;
};

SteadyTime SteadyNow();

}  // namespace sluice
