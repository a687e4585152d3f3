// Wakes an event loop at a time, to the microsecond. The loop's own timers have steps of a
// millisecond, which would be part of every latency of an open loop.
//
// Loop thread only. Must be disposed of (Loop::DisposeLater), not destroyed.
#pragma once

#include <functional>

#include "base/clock.h"
#include "net/epoll_loop.h"

namespace sluice::load {

class PreciseTimer final : public net::EventHandler {
 public:
  PreciseTimer(net::EpollLoop& loop, std::function<void()> on_time);
  ~PreciseTimer() override;

  // Calls `on_time` once at `at`; replaces the time set before. max(): never.
  void WakeAt(SteadyTime at);

 private:
  void OnEvents(std::uint32_t events) override;

  net::EpollLoop& loop_;
  const std::function<void()> on_time_;
  const int fd_;
  SteadyTime at_ = SteadyTime::max();
};

}  // namespace sluice::load
