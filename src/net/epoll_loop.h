// A Loop based on Linux epoll.
//
//   epoll_wait ──▶ read ready sockets ──▶ posted tasks ──▶ timers ──▶ flush ──▶ dispose ──▶ repeat
//
// Run is called on one thread. Post, Stop and load are thread-safe. For all other functions see
// Loop.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "metrics/histogram.h"
#include "net/loop.h"
#include "net/socket.h"

namespace sluice::net {

class Resolver;

// Receives the events of a file descriptor. Loop thread only. After Unwatch, the handler must be
// destroyed by DisposeLater, not at once.
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

  // Runs iterations until Stop. The calling thread becomes the loop's thread.
  void Run();

  // Makes Run return at the end of an iteration. Thread-safe.
  void Stop();

  void Post(Task task) override SLUICE_EXCLUDES(mutex_);
  TransportPtr Adopt(Socket socket, FlushStage stage) override;
  std::unique_ptr<ConnectAttempt> Connect(const Address& address, Duration connect_timeout,
                                          FlushStage stage, ConnectDone done) override;

  // Records the lateness of each iteration in `histogram` if the lateness is kNoticed or more.
  // Lateness is the time from the start to the end of the iteration. If a timer was due before the
  // start, lateness is the time from that timer's due time to the end.
  // REQUIRES: before Run.
  void MeasureLateness(Histogram& histogram) { lateness_ = &histogram; }
  static constexpr std::chrono::milliseconds kNoticed{2};

  // The share of time for which this loop was busy, over about the last second, in units of
  // 1/1024. Thread-safe.
  std::uint32_t load() const;

  // Calls `handler` for `events` of `fd` (level-triggered), from Watch to Unwatch.
  void Watch(int fd, std::uint32_t events, EventHandler& handler);
  void ChangeEvents(int fd, std::uint32_t events, EventHandler& handler);
  // Also discards events that are ready for `handler`.
  void Unwatch(int fd, EventHandler& handler);

  // Buffers shared by all handlers. The next read or flush overwrites the contents.
  std::array<char, Transport::kReadBytes>& read_buffer() { return read_buffer_; }
  std::string& write_buffer() { return write_buffer_; }

 private:
  static constexpr std::size_t kMaxEvents = 256;

  void Dispatch();
  int WaitMilliseconds(SteadyTime wake) const;
  void RunTasks() SLUICE_EXCLUDES(mutex_);
  void NoteLoad(SteadyTime began, SteadyTime ended);

  Resolver& resolver_;
  const int epoll_;
  const int wake_;  // an eventfd; readable while tasks_ has tasks
  std::array<epoll_event, kMaxEvents> events_;
  int ready_ = 0;  // number of valid entries in events_
  std::string write_buffer_;
  std::array<char, Transport::kReadBytes> read_buffer_;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint32_t> load_ = 0;
  std::atomic<SteadyTime> last_end_;  // of the latest iteration
  Histogram* lateness_ = nullptr;
  std::vector<Task> running_;

  Mutex mutex_;
  std::vector<Task> tasks_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::net
