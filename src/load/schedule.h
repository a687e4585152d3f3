// When messages start. Closed loop: whenever there is room for one. Open loop: message i at
// i · interval after the begin, whatever the server does: a message that is sent late still counts
// from then, and none is left out, so a stall shows in full (no coordinated omission).
//
// Not thread-safe. Asks no clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "base/clock.h"

namespace sluice::load {

class Schedule {
 public:
  // Which messages of an open loop are this schedule's: `first`, `first + step`, ….
  struct Pace {
    std::chrono::duration<double> interval{};  // from message to message, of all schedules
    std::uint64_t first = 0;
    std::uint64_t step = 1;
  };

  // Closed loop, until `end`.
  explicit Schedule(SteadyTime end) : end_(end) {}

  // Open loop. `pace.interval` is positive.
  Schedule(SteadyTime begin, SteadyTime end, const Pace& pace);

  // Whether a message should start at `now`, or should have.
  bool IsDue(SteadyTime now) const { return !Over(now) && (!is_open() || next_ <= now); }

  // The start of the message that is due. REQUIRES: IsDue(now)
  SteadyTime Take(SteadyTime now);

  // When the next message of an open loop is due; max() if none is.
  SteadyTime next() const { return left_ > 0 && next_ < end_ ? next_ : SteadyTime::max(); }

  // Whether no message is due at `now` or ever after.
  bool Over(SteadyTime now) const {
    return left_ == 0 || (is_open() ? next_ >= end_ : now >= end_);
  }

  // No message starts at `end` or later.
  void EndAt(SteadyTime end) { end_ = std::min(end_, end); }

  // At most so many more messages start.
  void LimitTo(std::uint64_t messages) { left_ = messages; }

  SteadyTime end() const { return end_; }
  bool is_open() const { return pace_.interval.count() > 0; }

 private:
  SteadyTime begin_{};
  SteadyTime end_;
  SteadyTime next_ = SteadyTime::max();
  Pace pace_;
  std::uint64_t left_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace sluice::load
