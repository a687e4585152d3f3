// Waits for sockets to have something to read, or room to write. A socket that is closed leaves it
// by itself.
//
// Not thread-safe.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

namespace sluice::load {

class Poller {
 public:
  Poller() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // From now on waits until `fd` is readable. `number` is what the caller knows it by.
  void Add(int fd, std::uint32_t number) { Control(EPOLL_CTL_ADD, fd, number, EPOLLIN); }

  // Whether to wait until it is writable, too.
  void WaitToWrite(int fd, std::uint32_t number, bool wait) {
    Control(EPOLL_CTL_MOD, fd, number, wait ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  // Those that are ready, as events whose data.u32 is the number; none after `at_most`. Valid until
  // the next call.
  std::span<const epoll_event> Wait(std::chrono::nanoseconds at_most);

 private:
  void Control(int operation, int fd, std::uint32_t number, std::uint32_t events) const;

  const int fd_;
  std::array<epoll_event, 64> ready_;
};

}  // namespace sluice::load
