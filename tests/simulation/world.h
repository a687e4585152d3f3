// A simulated world: time, random numbers and the order of events come from a seed, so every
// failure can be reproduced. The monotonic clock, the boot clock and RandomBytes return the world's
// values.
//
// One world at a time in a process; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "base/clock.h"

namespace sluice::simulation {

class World {
 public:
  using Event = std::function<void()>;

  explicit World(std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  SteadyTime now() const { return now_; }
  // The clock of BootNow. Falls behind `now` only if a fault is planted.
  SteadyTime boot_now() const { return now_ - boot_lag_; }
  void StopBootClock(Duration duration) { boot_lag_ += duration; }

  // How far the clock of all Redis servers is ahead of the world's clock.
  Duration redis_ahead() const { return redis_ahead_; }
  void ShiftRedisClock(Duration by) { redis_ahead_ += by; }

  // Events with the same time happen in the order in which they were added.
  void At(SteadyTime time, Event event);
  void After(SteadyTime::duration delay, Event event) { At(now_ + delay, std::move(event)); }

  // Runs all events until `end`. The time is then `end`.
  void RunUntil(SteadyTime end);

  // Below `n`, uniformly; n > 0.
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  Duration Between(Duration least, Duration most) {
    return least + Duration(Below(static_cast<std::uint64_t>((most - least).count()) + 1));
  }
  template <typename T, std::size_t n>
  const T& Pick(const T (&choices)[n]) {
    return choices[Below(n)];
  }

 private:
  struct Pending {
    SteadyTime time;
    std::uint64_t number;
    Event event;
    bool operator>(const Pending& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  SteadyTime now_;
  Duration boot_lag_{};
  Duration redis_ahead_{};
  std::mt19937_64 random_;
  std::uint64_t events_ = 0;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;
};

// A wall clock that is ahead of the world's time by `ahead`.
class WorldClock final : public Clock {
 public:
  explicit WorldClock(const World& world, Duration ahead = {}) : world_(world), ahead_(ahead) {}

  // The time of a wall clock that is not ahead.
  static Time TimeAt(SteadyTime time);
  Time Now() const override { return TimeAt(world_.now()) + ahead_; }
  void Shift(Duration by) { ahead_ += by; }

 private:
  const World& world_;
  Duration ahead_;
};

}  // namespace sluice::simulation
