#include "load/poller.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace sluice::load {

Poller::~Poller() { close(fd_); }

std::span<const epoll_event> Poller::Wait(std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec timeout = {.tv_sec = seconds.count(), .tv_nsec = (at_most - seconds).count()};
  const int count =
      epoll_pwait2(fd_, ready_.data(), static_cast<int>(ready_.size()), &timeout, nullptr);
  return {ready_.data(), static_cast<std::size_t>(std::max(count, 0))};
}

void Poller::Control(int operation, int fd, std::uint32_t number, std::uint32_t events) const {
  epoll_event event{.events = events, .data = {.u32 = number}};
  epoll_ctl(fd_, operation, fd, &event);
}

}  // namespace sluice::load
