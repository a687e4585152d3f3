// The timers of one loop, ordered by their times, with a resolution of 1 ms. Starting and canceling
// a timer takes logarithmic time and allocates nothing.
//
// Loop thread only.
#pragma once

#include <boost/intrusive/set.hpp>

#include <chrono>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace sluice::net {

class TimerQueue;

// Calls `on_time` once, in the first iteration that begins at or after the time given to Start,
// which is rounded up to a millisecond. The destructor cancels the timer. Must not outlive the
// queue.
class Timer {
 public:
  Timer(TimerQueue& queue, std::function<void()> on_time)
      : queue_(queue), on_time_(std::move(on_time)) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // `at`: when to call `on_time`. Restarts the timer if it is active.
  void Start(SteadyTime at);
  void Cancel() { hook_.unlink(); }

  bool active() const { return hook_.is_linked(); }
  SteadyTime at() const { return at_; }

 private:
  friend class TimerQueue;

  using Hook =
      boost::intrusive::set_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  TimerQueue& queue_;
  const std::function<void()> on_time_;
  SteadyTime at_{};
  SteadyTime due_{};  // at_, rounded
  Hook hook_;
};

class TimerQueue {
 public:
  explicit TimerQueue(SteadyTime start) : now_(start) {}
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // Fires all timers that are due at `now`. Their callbacks may start, cancel and destroy timers.
  void Advance(SteadyTime now);

  // When the first timer is due, or SteadyTime::max() if there are no timers.
  SteadyTime NextWake() const {
    return timers_.empty() ? SteadyTime::max() : timers_.begin()->due_;
  }

 private:
  friend class Timer;

  struct Earlier {
    bool operator()(const Timer& a, const Timer& b) const { return a.due_ < b.due_; }
  };

  static constexpr std::chrono::milliseconds kResolution{1};

  SteadyTime now_;  // all timers up to this time have fired
  boost::intrusive::multiset<Timer, boost::intrusive::compare<Earlier>,
                             boost::intrusive::constant_time_size<false>,
                             boost::intrusive::member_hook<Timer, Timer::Hook, &Timer::hook_>>
      timers_;
};

}  // namespace sluice::net
