#include "net/poller.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace sluice::net {

Poller::Poller()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

Poller::~Poller() {
  ::close(wake_);
  ::close(epoll_);
}

void Poller::Wait(int milliseconds) {
  ready_ = std::max(0, epoll_wait(epoll_, events_.data(), kMaxEvents, milliseconds));
}

void Poller::Dispatch() {
  for (int i = 0; i < ready_; ++i) {
    auto* const handler = static_cast<EventHandler*>(events_[i].data.ptr);
    if (handler != nullptr) handler->OnEvents(events_[i].events);
  }
  ready_ = 0;
}

void Poller::Wake() const {
  constexpr std::uint64_t kOne = 1;
  static_cast<void>(!::write(wake_, &kOne, sizeof kOne));  // a full counter also wakes the loop
}

void Poller::ClearWake() const {
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_, &count, sizeof count));
}

void Poller::Watch(int fd, std::uint32_t events, EventHandler& handler) {
  epoll_event event{.events = events, .data = {.ptr = &handler}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void Poller::ChangeEvents(int fd, std::uint32_t events, EventHandler& handler) {
  epoll_event event{.events = events, .data = {.ptr = &handler}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void Poller::Unwatch(int fd, EventHandler& handler) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  for (int i = 0; i < ready_; ++i) {
    if (events_[i].data.ptr == &handler) events_[i].data.ptr = nullptr;
  }
}

}  // namespace sluice::net
