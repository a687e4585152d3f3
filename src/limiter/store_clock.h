// An estimate of the store's clock: this server's clock plus the offset seen in answers. So windows
// of local counters end at the same time as windows in the store.
//
// Thread-safe.
#pragma once

#include <atomic>

#include "base/clock.h"

namespace sluice {

class StoreClock final : public Clock {
 public:
  // `own` must outlive this.
  explicit StoreClock(const Clock& own) : own_(own) {}

  Time Now() const override {
    return own_.Now() + Duration(ahead_.load(std::memory_order_relaxed));
  }

  // Updates the offset from the time in an answer of the store, at most once a second. `now` is
  // approximately the current time.
  void Learn(Time at_store, SteadyTime now) {
    const auto count = now.time_since_epoch().count();
    if (count < next_.load(std::memory_order_relaxed)) return;
    next_.store(count + SteadyTime::duration(kEvery).count(), std::memory_order_relaxed);
    ahead_.store((at_store - own_.Now()).count(), std::memory_order_relaxed);
  }

 private:
  static constexpr std::chrono::seconds kEvery{1};

  const Clock& own_;
  std::atomic<Duration::rep> ahead_{0};
  std::atomic<SteadyTime::rep> next_{0};
};

}  // namespace sluice
