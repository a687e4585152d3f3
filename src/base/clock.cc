#include "base/clock.h"

namespace sluice {
namespace {

class SystemClock final : public Clock {
 public:
  Time Now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }
};

}  // namespace

const Clock& Clock::System() {
  static const SystemClock clock;
  return clock;
}

SteadyTime SteadyNow() { return std::chrono::steady_clock::now(); }

}  // namespace sluice
