// Determines when messages start. In a closed loop, a message starts as soon as there is room. In
// an open loop, message i starts i · interval after the begin, independent of the server. If a
// message is sent late, its latency counts from the time at which it should have started, and no
// message is skipped. So the latencies include every stall in full (no coordinated omission).
//
// Not thread-safe. Does not read a clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace sluice::load {

class Schedule {
 public:
  // This schedule's messages of an open loop: `first`, `first + step`, ….
  struct Pace {
    std::chrono::duration<double> interval{};  // between consecutive messages of all schedules
    std::uint64_t first = 0;
    std::uint64_t step = 1;
  };

  // A closed loop until `end`.
  explicit Schedule(SteadyTime end) : end_(end) {}

  // An open loop. `pace.interval` must be positive.
  Schedule(SteadyTime begin, SteadyTime end, const Pace& pace)
      : begin_(begin), end_(end), pace_(pace), next_(StartOfNext()) {}

  // Whether a message should start at or before `now`.
  bool IsDue(SteadyTime now) const { return !Over(now) && (!is_open() || next_ <= now); }

  // Takes the message that is due and returns its start. REQUIRES: IsDue(now)
  SteadyTime Take(SteadyTime now) {
    --left_;
    if (!is_open()) return now;
    pace_.first += pace_.step;
    return std::exchange(next_, StartOfNext());
  }

  // When the next message of an open loop is due. max() in a closed loop, or if no message is left.
  SteadyTime next() const { return left_ > 0 && next_ < end_ ? next_ : SteadyTime::max(); }

  // Whether the schedule has ended: no message is left to start. `now` matters only in a closed
  // loop.
  bool Over(SteadyTime now) const {
    return left_ == 0 || (is_open() ? next_ >= end_ : now >= end_);
  }

  // Prevents messages from starting at or after `end`.
  void EndAt(SteadyTime end) { end_ = std::min(end_, end); }

  // Allows at most `messages` more messages to start.
  void LimitTo(std::uint64_t messages) { left_ = messages; }

  SteadyTime end() const { return end_; }
  bool is_open() const { return pace_.interval.count() > 0; }

 private:
  // Multiplies instead of adding up, so that rounding errors do not accumulate.
  SteadyTime StartOfNext() const {
    const auto since_begin = static_cast<double>(pace_.first) * pace_.interval;
    return begin_ + std::chrono::duration_cast<SteadyTime::duration>(since_begin);
  }

  SteadyTime begin_{};
  SteadyTime end_;
  Pace pace_;  // `first`: the next message
  SteadyTime next_ = SteadyTime::max();
  std::uint64_t left_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace sluice::load
