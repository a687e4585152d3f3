// Watches file descriptors with Linux epoll, level-triggered.
//
// Loop thread only, except Wake.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "net/transport.h"

namespace sluice::net {

// Receives the events of a file descriptor. Loop thread only. After Unwatch, it must be destroyed
// by DisposeLater, not at once.
class EventHandler : public Disposable {
 public:
  // `events`: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.
  virtual void OnEvents(std::uint32_t events) = 0;
};

class Poller {
 public:
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Waits until something is ready, at most `milliseconds`, or without limit if it is -1. Then
  // Dispatch calls the handlers.
  void Wait(int milliseconds);
  void Dispatch();

  // Ends the current or the next Wait. Thread-safe. Until ClearWake, Wait returns at once.
  void Wake() const;
  void ClearWake() const;

  // Calls `handler` for `events` of `fd`, from Watch to Unwatch.
  void Watch(int fd, std::uint32_t events, EventHandler& handler);
  void ChangeEvents(int fd, std::uint32_t events, EventHandler& handler);
  // Also discards events that are ready for `handler`.
  void Unwatch(int fd, EventHandler& handler);

  // Buffers shared by all handlers. The next read or flush overwrites the contents.
  std::array<char, Transport::kReadBytes>& read_buffer() { return read_buffer_; }
  std::string& write_buffer() { return write_buffer_; }

 private:
  static constexpr std::size_t kMaxEvents = 256;

  const int epoll_;
  const int wake_;  // an eventfd
  std::array<epoll_event, kMaxEvents> events_;
  int ready_ = 0;  // number of valid entries in events_
  std::string write_buffer_;
  std::array<char, Transport::kReadBytes> read_buffer_;
};

}  // namespace sluice::net
