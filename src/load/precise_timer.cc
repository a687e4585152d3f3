#include "load/precise_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace sluice::load {

PreciseTimer::PreciseTimer(net::EpollLoop& loop, std::function<void()> on_time)
    : loop_(loop),
      on_time_(std::move(on_time)),
      fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  loop_.Watch(fd_, EPOLLIN, *this);
}

PreciseTimer::~PreciseTimer() {
  loop_.Unwatch(fd_, *this);
  close(fd_);
}

void PreciseTimer::WakeAt(SteadyTime at) {
  if (std::exchange(at_, at) == at) return;
  itimerspec time{};  // zero stops the timer
  if (at != SteadyTime::max()) {
    const auto since_boot =
        std::max<std::chrono::nanoseconds>(at.time_since_epoch(), {}) + std::chrono::nanoseconds(1);
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
    time.it_value = {.tv_sec = seconds.count(), .tv_nsec = (since_boot - seconds).count()};
  }
  timerfd_settime(fd_, TFD_TIMER_ABSTIME, &time, nullptr);
}

void PreciseTimer::OnEvents(std::uint32_t) {
  std::uint64_t expirations = 0;
  if (read(fd_, &expirations, sizeof expirations) < 0) return;  // restarted in this iteration
  at_ = SteadyTime::max();
  on_time_();
}

}  // namespace sluice::load
