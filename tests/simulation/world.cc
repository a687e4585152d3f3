#include "tests/simulation/world.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.h"
#include "base/random.h"

namespace {

const sluice::simulation::World* the_world = nullptr;
std::mt19937_64 random_bytes;

}  // namespace

// Replaces the C library's function, for std::chrono::steady_clock and BootNow.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const bool is_simulated = clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME;
  if (!is_simulated || the_world == nullptr) {
    return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  }
  const bool is_boot = clock == CLOCK_BOOTTIME;
  const auto now = (is_boot ? the_world->boot_now() : the_world->now()).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  time->tv_sec = seconds.count();
  time->tv_nsec = std::chrono::nanoseconds(now - seconds).count();
  return 0;
}

namespace sluice {

// Replaces the function in base/random.cc.
std::array<std::uint8_t, 16> RandomBytes() {
  std::array<std::uint8_t, 16> bytes;
  std::generate(bytes.begin(), bytes.end(),
                [] { return static_cast<std::uint8_t>(random_bytes()); });
  return bytes;
}

namespace simulation {

World::World(std::uint64_t seed) : now_(std::chrono::hours(1)), random_(seed) {
  // The first call of Hash draws a seed from `random_bytes`. This call comes before `random_bytes`
  // is seeded, so that runs with the same seed are equal.
  Hash("");
  random_bytes.seed(seed);
  the_world = this;
}

World::~World() { the_world = nullptr; }

void World::At(SteadyTime time, Event event) {
  pending_.push({std::max(time, now_), events_++, std::move(event)});
}

void World::RunUntil(SteadyTime end) {
  while (!pending_.empty() && pending_.top().time <= end) {
    now_ = pending_.top().time;
    const Event event = std::move(const_cast<Pending&>(pending_.top()).event);
    pending_.pop();
    event();
  }
  now_ = end;
}

Time WorldClock::TimeAt(SteadyTime time) {
  constexpr Time kBegin{std::chrono::hours(500'000)};
  return kBegin + std::chrono::floor<Duration>(time.time_since_epoch());
}

}  // namespace simulation
}  // namespace sluice
