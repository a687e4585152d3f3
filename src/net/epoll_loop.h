// A Loop based on Linux epoll.
//
//   epoll_wait ──▶ read ready sockets ──▶ posted tasks ──▶ timers ──▶ flush ──▶ dispose ──▶ repeat
//
// Run is called on one thread. Post, Stop and load are thread-safe. For all other functions see
// Loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "net/loop.h"
#include "net/poller.h"
#include "net/socket.h"

namespace sluice {
class Histogram;
}

namespace sluice::net {

class Resolver;

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

  // Records the lateness of an iteration in `histogram` if it is kNoticed or more. Lateness: the
  // time from the start of the iteration, or from an earlier due timer, to the iteration's end.
  // REQUIRES: before Run.
  void MeasureLateness(Histogram& histogram) { lateness_ = &histogram; }
  static constexpr std::chrono::milliseconds kNoticed{2};

  // The part of about the last second in which this loop was busy, in 1/1024. Thread-safe.
  std::uint32_t load() const;

  Poller& poller() { return poller_; }

 private:
  int WaitMilliseconds(SteadyTime wake) const;
  void RunTasks() SLUICE_EXCLUDES(mutex_);
  void NoteLoad(SteadyTime began, SteadyTime ended);

  Resolver& resolver_;
  Poller poller_;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint32_t> load_ = 0;
  std::atomic<SteadyTime> last_end_;  // of the latest iteration
  Histogram* lateness_ = nullptr;
  std::vector<Task> running_;

  Mutex mutex_;
  std::vector<Task> tasks_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::net
