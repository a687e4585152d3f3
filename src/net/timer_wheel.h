// The timers of one loop, with a resolution of 1 ms. Starting and canceling a timer takes constant
// time. Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987).
//
// Loop thread only.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace sluice::net {

class TimerWheel;

// A link of a circular list: a timer or a list's head.
struct TimerLink {
  TimerLink* previous = this;
  TimerLink* next = this;

  bool alone() const { return next == this; }
  void Unlink();
  void LinkBefore(TimerLink& other);
};

// Calls `on_time` once, in the first iteration that begins at or after the start time, rounded up
// to a millisecond. The destructor cancels the timer. Must not outlive the wheel.
class Timer : private TimerLink {
 public:
  Timer(TimerWheel& wheel, std::function<void()> on_time)
      : wheel_(wheel), on_time_(std::move(on_time)) {}
  ~Timer() { Cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // `at`: when to call `on_time`. Restarts the timer if it is active.
  void Start(SteadyTime at);
  void Cancel();

  bool active() const { return !alone(); }
  SteadyTime at() const { return at_; }

 private:
  friend class TimerWheel;

  TimerWheel& wheel_;
  const std::function<void()> on_time_;
  SteadyTime at_{};
  std::uint64_t tick_ = 0;
};

class TimerWheel {
 public:
  explicit TimerWheel(SteadyTime start) : start_(start) {}
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // Fires all timers that are due at `now`. Their callbacks may start, cancel and destroy timers.
  void Advance(SteadyTime now);

  // A time before which no timer is due, or SteadyTime::max() if there are no timers.
  SteadyTime NextWake() const;

 private:
  friend class Timer;

  // Each level has 256 slots, of 1 ms, 256 ms, 65.5 s and 4.7 h. A timer beyond the last level is
  // put into its last slot and added again from there.
  static constexpr int kLevels = 4;
  static constexpr int kSlotBits = 8;
  static constexpr std::uint64_t kSlots = 1U << kSlotBits;
  static constexpr std::uint64_t kMaxAhead = (std::uint64_t{1} << (kLevels * kSlotBits)) - 1;

  // The index of the slot of `level` that contains `tick`.
  static std::size_t SlotOf(int level, std::uint64_t tick) {
    return (tick >> (level * kSlotBits)) % kSlots;
  }

  SteadyTime TimeOf(std::uint64_t tick) const { return start_ + std::chrono::milliseconds(tick); }
  std::uint64_t TickAtOrAfter(SteadyTime at) const;
  std::uint64_t TickAtOrBefore(SteadyTime at) const;
  std::uint64_t NextTick() const;
  void Add(Timer& timer);
  void Refile(int level);
  void Fire(TimerLink& slot);

  const SteadyTime start_;
  std::uint64_t tick_ = 0;  // all timers up to this tick have fired
  std::array<std::array<TimerLink, kSlots>, kLevels> levels_;
  // Slots that may hold timers: set when a timer is added, cleared when the slot is emptied.
  std::array<std::bitset<kSlots>, kLevels> used_;
};

}  // namespace sluice::net
