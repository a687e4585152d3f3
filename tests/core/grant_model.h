// A model of a fleet that decides from grants. It consists of one counter with its real state, of
// holders, and of a network that delays and loses messages. Holders ask for units, use and return
// them, pause, and die. A seed determines the schedule. The model records when each unit is used.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "core/algorithm/counter.h"

namespace sluice {

class GrantModel {
 public:
  // Faults that a test plants: each must be found.
  enum class Planted { kNone, kRefillsWithoutCap, kReturnsTwice, kUsesBeyondTheEnd };

  struct Use {
    Duration at{};  // true time
    std::int64_t units = 0;
  };

  GrantModel(const Limit& limit, std::uint32_t seed, Planted planted = Planted::kNone);

  // Runs the schedule. Returns the uses in order of time.
  std::vector<Use> Run();

  // The time of Redis' clock at the true time `at`. In some schedules of buckets, this clock steps
  // back.
  Time RedisTime(Duration at) const;

  std::int64_t grants() const { return grants_; }
  std::int64_t used_from_grants() const { return used_from_grants_; }

 private:
  struct Holder {
    bool prefetches = false;  // whether its rules have `prefetch`
    double clock_rate = 1;    // of its own clock
    int life = 0;             // incremented when the holder is killed
    bool asks = false;
    Grant held{};
    std::int64_t left = 0;
    Duration until{};  // true time
    Duration since{};
    std::int64_t wanted = 8;
  };
  struct Reply {
    Grant grant;
    bool admitted = false;
  };

  std::int64_t Below(std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
  }
  bool OneIn(std::int64_t n) { return Below(n) == 0; }
  Duration Delay();
  void At(Duration when, std::function<void()> what) { events_.emplace(when, std::move(what)); }

  void Arrive(std::size_t index);
  void Burst();
  void Check(std::size_t index, std::int64_t units);
  void Send(std::size_t index, std::int64_t units, const GrantReturn& returned,
            const GrantWish& wish);
  void OnReply(std::size_t index, const Reply& reply, Duration sent, const GrantWish& wish);
  GrantReturn TakeOut(Holder& holder);
  void ReturnUnspent(std::size_t index, int life, Time generation);
  Reply Decide(std::int64_t units, const GrantReturn& returned, const GrantWish& wish);
  void Kill(std::size_t index);

  const Limit limit_;
  const Planted planted_;
  std::mt19937 random_;
  Duration load_{};  // a busy holder's longest gap between checks, pauses excluded
  Duration now_{};
  std::multimap<Duration, std::function<void()>> events_;
  std::vector<Holder> holders_;
  std::optional<CounterState> state_;
  // The steps of Redis' clock: the true time of each step → the sum of the steps so far.
  std::map<Duration, Duration> steps_;
  std::vector<Use> uses_;
  std::int64_t grants_ = 0;
  std::int64_t used_from_grants_ = 0;
};

}  // namespace sluice
