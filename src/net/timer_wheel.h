// Timers of one loop, in steps of a millisecond: starting and cancelling one costs a few pointers,
// however many there are. After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987).
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

// A place in a circular list: a timer's, or a list's head.
struct TimerLink {
  TimerLink* previous = this;
  TimerLink* next = this;

  bool alone() const { return next == this; }
  void Unlink();
  void LinkBefore(TimerLink& other);
};

// Calls `on_time` once, in the first turn that begins at or after the time it was started for,
// rounded up to a millisecond. Cancelled by its destructor; must not outlive the wheel.
class Timer : private TimerLink {
 public:
  Timer(TimerWheel& wheel, std::function<void()> on_time)
      : wheel_(wheel), on_time_(std::move(on_time)) {}
  ~Timer() { Cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Replaces the time, if the timer is active already.
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

  // Calls all timers that are due at `now`. They may start, cancel and destroy others.
  void Advance(SteadyTime now);

  // No timer is due before; SteadyTime::max() if there are none.
  SteadyTime NextWake() const;

 private:
  friend class Timer;

  // 256 slots a level: of 1 ms, of 256 ms, of 65.5 s, of 4.7 h. A timer that is further away waits
  // in the farthest slot and is filed anew from there.
  static constexpr int kLevels = 4;
  static constexpr int kSlotBits = 8;
  static constexpr std::uint64_t kSlots = 1U << kSlotBits;
  static constexpr std::uint64_t kMaxAhead = (std::uint64_t{1} << (kLevels * kSlotBits)) - 1;

  // Where the slot of `level` that `tick` falls into stands in its ring.
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
  std::uint64_t tick_ = 0;  // the timers of this tick and those before have been called
  std::array<std::array<TimerLink, kSlots>, kLevels> levels_;
  // Slots that may hold timers: set when one is filed, cleared when the slot is taken.
  std::array<std::bitset<kSlots>, kLevels> used_;
};

}  // namespace sluice::net
