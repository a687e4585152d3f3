#include "base/clock.h"

#include <ctime>

namespace sluice {
namespace {

class SystemClock final : public Clock {
 public:
  Time Now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }
};

class MonotonicClock final : public Clock {
 public:
  Time Now() const override {
    return start_ + std::chrono::duration_cast<Duration>(BootNow() - booted_);
  }

 private:
  const Time start_ = System().Now();
  const BootTime booted_ = BootNow();
};

}  // namespace

const Clock& Clock::System() {
  static const SystemClock clock;
  return clock;
}

const Clock& Clock::Monotonic() {
  static const MonotonicClock clock;
  return clock;
}

SteadyTime SteadyNow() { return std::chrono::steady_clock::now(); }

BootTime BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return BootTime(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace sluice
