// How many checks may wait for one node. If more checks waited than Redis decides in half of the
// timeout, most of the excess would time out.
//
// Loop thread only.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/clock.h"

namespace sluice::redis {

class WaitingLimit {
 public:
  // `max_pending` and `timeout`: see NodeOptions.
  WaitingLimit(std::size_t max_pending, Duration timeout)
      : max_pending_(max_pending), half_(timeout / 2), limit_(std::min(max_pending, kLeast)) {}

  std::size_t waiting() const { return waiting_; }
  bool is_reached() const { return waiting_ >= limit_; }

  void Add() { ++waiting_; }
  void Remove() { --waiting_; }

  // Redis has answered a call that carried this number of checks.
  void NoteAnswered(std::size_t checks, SteadyTime now) {
    const SteadyTime::duration passed = now - half_began_;
    if (passed >= half_) {
      answered_before_ = passed < 2 * half_ ? answered_ : 0;
      answered_ = 0;
      half_began_ = now;
    }
    answered_ += checks;
    limit_ = std::min(max_pending_, std::max({kLeast, answered_, answered_before_}));
  }

 private:
  // The limit never falls below this number of checks, which one message may have, unless
  // `max_pending` is less.
  static constexpr std::size_t kLeast = 1000;

  const std::size_t max_pending_;
  const Duration half_;
  std::size_t limit_;
  std::size_t waiting_ = 0;  // queued or in flight
  // Checks answered in the current half of the timeout, and in the previous one.
  std::size_t answered_ = 0;
  std::size_t answered_before_ = 0;
  SteadyTime half_began_{};
};

}  // namespace sluice::redis
