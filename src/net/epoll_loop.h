// A Loop on Linux' epoll, level-triggered.
//
//   epoll_wait ──▶ read what is ready ──▶ posted tasks ──▶ timers ──▶ flush ──▶ dispose ──▶ again
//
// Run on one thread; Post and Stop on any; everything else as in Loop.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "net/loop.h"
#include "net/socket.h"

namespace sluice::net {

class Resolver;

// What waits for a file descriptor. Loop thread only.
class EventHandler : public Disposable {
 public:
  // `events`: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.
  virtual void OnEvents(std::uint32_t events) = 0;
};

class EpollLoop final : public Loop {
 public:
  // `resolver` must outlive the loop.
  EpollLoop(std::size_t index, Resolver& resolver);
  ~EpollLoop() override;

  // Works until Stop. The calling thread is the loop's thread from then on.
  void Run();

  // Makes Run return after the turn it is in. Thread-safe.
  void Stop();

  void Post(Task task) override SLUICE_EXCLUDES(mutex_);
  TransportPtr Adopt(Socket socket, FlushStage stage) override;
  std::unique_ptr<ConnectAttempt> Connect(const Address& address, Duration connect_timeout,
                                          FlushStage stage, ConnectDone done) override;

  // How much of the last second or so this loop has worked, in 1/1024. Thread-safe.
  std::uint32_t load() const;

  // For what waits: from Watch to Unwatch `handler` is told of `events`. A handler must not be
  // destroyed in the turn in which it was told, but disposed of.
  void Watch(int fd, std::uint32_t events, EventHandler& handler);
  void ChangeEvents(int fd, std::uint32_t events, EventHandler& handler);
  // `handler` is told nothing more, not even of what this turn has brought already.
  void Unwatch(int fd, EventHandler& handler);

  // Buffers for one read or one flush; what they hold is lost with the next one's.
  std::array<char, Transport::kReadBytes>& read_buffer() { return read_buffer_; }
  std::string& write_buffer() { return write_buffer_; }

 private:
  static constexpr std::size_t kMaxEvents = 256;

  int WaitMilliseconds() const;
  void RunTasks() SLUICE_EXCLUDES(mutex_);
  void NoteLoad(SteadyTime began, SteadyTime ended);

  Resolver& resolver_;
  const int epoll_;
  const int wake_;  // an eventfd
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint32_t> load_ = 0;
  std::atomic<SteadyTime> last_end_;  // of the latest turn
  std::array<epoll_event, kMaxEvents> events_;
  int ready_ = 0;  // of events_
  std::vector<Task> running_;
  std::string write_buffer_;
  std::array<char, Transport::kReadBytes> read_buffer_;

  Mutex mutex_;
  std::vector<Task> tasks_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::net
