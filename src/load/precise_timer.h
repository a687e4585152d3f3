// A timer of an event loop with microsecond resolution. The loop's own timers have a resolution of
// 1 ms, which would distort the latencies of an open loop.
//
// Loop thread only. Must be destroyed by Loop::DisposeLater.
#pragma once

#include <functional>

#include "base/clock.h"
#include "net/epoll_loop.h"

namespace sluice::load {

class PreciseTimer final : public net::EventHandler {
 public:
  PreciseTimer(net::EpollLoop& loop, std::function<void()> on_time);
  ~PreciseTimer() override;

  // Calls `on_time` once, at `at`. Replaces the time of an earlier call. max() stops the timer.
  void WakeAt(SteadyTime at);

 private:
  void OnEvents(std::uint32_t events) override;

  net::EpollLoop& loop_;
  const std::function<void()> on_time_;
  const int fd_;
  SteadyTime at_ = SteadyTime::max();
};

}  // namespace sluice::load
