// The io threads "io-0", "io-1", …, each with one loop. Assigns new connections to threads.
//
// Start and Stop are for the owner only. All other functions are thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/thread.h"
#include "net/epoll_loop.h"
#include "net/resolver.h"

namespace sluice::net {

// The assignment of a connection to a loop. The loop counts the connection until the assignment is
// destroyed.
class LoopAssignment {
 public:
  LoopAssignment() = default;
  LoopAssignment(EpollLoop& loop, std::atomic<int>& connections)
      : loop_(&loop), connections_(&connections) {
    connections.fetch_add(1, std::memory_order_relaxed);
  }

  EpollLoop& loop() const { return *loop_; }

 private:
  struct Leave {
    void operator()(std::atomic<int>* connections) const {
      connections->fetch_sub(1, std::memory_order_relaxed);
    }
  };

  EpollLoop* loop_ = nullptr;
  std::unique_ptr<std::atomic<int>, Leave> connections_;
};

class IoThreads {
 public:
  // REQUIRES: count > 0
  explicit IoThreads(std::size_t count, Resolver::Lookup lookup = Resolver::SystemLookup);
  ~IoThreads() { Stop(); }

  std::size_t size() const { return threads_.size(); }
  EpollLoop& loop(std::size_t index) { return threads_[index]->loop; }

  // Calls EpollLoop::MeasureLateness for every thread. REQUIRES: before Start.
  void MeasureLateness(Histogram& histogram);

  void Start();

  // Ends each thread at the end of an iteration, and waits for the threads. Objects that use a loop
  // must be destroyed before Stop, or not use the loop after Stop. A second call has no effect.
  void Stop();

  // RunOn runs `task` on one io thread. RunOnEach runs it on all io threads, one after the other.
  // Both wait until `task` returns.
  // REQUIRES: called between Start and Stop, and not on an io thread.
  void RunOn(std::size_t index, const std::function<void(EpollLoop&)>& task);
  void RunOnEach(const std::function<void(EpollLoop&)>& task);

  // Assigns a connection to the least busy thread. Among equally busy threads, the one with the
  // fewest connections is chosen.
  LoopAssignment AssignConnection();

  LoopAssignment AssignTo(std::size_t index) {
    return LoopAssignment(threads_[index]->loop, threads_[index]->connections);
  }

 private:
  struct IoThread {
    IoThread(std::size_t index, Resolver& resolver) : loop(index, resolver) {}

    EpollLoop loop;
    std::atomic<int> connections = 0;
    Thread thread;
  };

  std::vector<std::unique_ptr<IoThread>> threads_;
  Resolver resolver_;  // posts to the loops, so it is destroyed before them
};

}  // namespace sluice::net
