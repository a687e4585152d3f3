#include "net/timer_queue.h"

#include <algorithm>

namespace sluice::net {

// A timer that a callback starts is due later than the timer that fires, so callbacks that restart
// timers cannot keep Advance running forever.
void Timer::Start(SteadyTime at) {
  Cancel();
  at_ = at;
  const SteadyTime next =
      std::chrono::floor<std::chrono::milliseconds>(queue_.now_) + TimerQueue::kResolution;
  due_ = std::max<SteadyTime>(std::chrono::ceil<std::chrono::milliseconds>(at), next);
  queue_.timers_.insert(*this);
}

void TimerQueue::Advance(SteadyTime now) {
  while (!timers_.empty() && timers_.begin()->due_ <= now) {
    Timer& first = *timers_.begin();
    now_ = first.due_;
    first.Cancel();
    first.on_time_();
  }
  now_ = std::max(now_, now);
}

}  // namespace sluice::net
