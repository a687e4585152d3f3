// Time. No other file reads the operating system's clock. The code of counters takes a Time or a
// Clock as a parameter, so that tests control time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice {

using Duration = std::chrono::microseconds;

// Wall-clock time in µs since the Unix epoch, as in counters and in Redis' TIME.
using Time = std::chrono::sys_time<Duration>;

// Monotonic time, for deadlines and latencies. Never sent to other machines.
using SteadyTime = std::chrono::steady_clock::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;

  // The system's clock. Never destroyed.
  static const Clock& System();

  // Starts at the system's time and then advances with BootNow, even if the system's clock is set.
  // Never destroyed.
  static const Clock& Monotonic();
};

// A clock that changes only by Set and Advance. Thread-safe.
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

// Sets `to` (a google.protobuf.Duration or Timestamp) to `time`.
template <typename Rep, typename Period, typename SecondsAndNanos>
void FillTime(std::chrono::duration<Rep, Period> time, SecondsAndNanos& to) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  to.set_seconds(seconds.count());
  to.set_nanos(static_cast<std::int32_t>(std::chrono::nanoseconds(time - seconds).count()));
}

// Like the clock of SteadyNow, but this clock also runs while the machine is suspended. Grants use
// this clock, because the store's clock decides when they end, and the store may run on another
// machine.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
};
using BootTime = BootClock::time_point;

BootTime BootNow();

}  // namespace sluice
