// The io threads "io-0", "io-1" …, each with a loop of its own, and which of them gets a new
// connection.
//
// Start and Stop by one owner; the rest is thread-safe.
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

class IoThreads {
 public:
  // REQUIRES: count > 0
  explicit IoThreads(std::size_t count, Resolver::Lookup lookup = Resolver::SystemLookup);
  ~IoThreads();

  std::size_t size() const { return threads_.size(); }
  EpollLoop& loop(std::size_t index) { return threads_[index]->loop; }

  void Start();

  // Ends the threads after the turns they are in. What loops own must be gone before, or never
  // need its loop again. Once at most.
  void Stop();

  // Runs `task` on that thread, or on each one after the other, and waits for it. Not on an io
  // thread. REQUIRES: between Start and Stop.
  void RunOn(std::size_t index, const std::function<void(EpollLoop&)>& task);
  void RunOnEach(const std::function<void(EpollLoop&)>& task);

  // A connection's place on a loop, for as long as the connection lives.
  class Place {
   public:
    Place() = default;
    Place(EpollLoop& loop, std::atomic<int>& connections)
        : loop_(&loop), connections_(&connections) {
      connections.fetch_add(1, std::memory_order_relaxed);
    }
    Place(Place&& other) noexcept
        : loop_(other.loop_), connections_(std::exchange(other.connections_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (connections_ != nullptr) connections_->fetch_sub(1, std::memory_order_relaxed);
    }

    EpollLoop& loop() const { return *loop_; }

   private:
    EpollLoop* loop_ = nullptr;
    std::atomic<int>* connections_ = nullptr;
  };

  // A place on the thread with the least to do: the one least busy of late, or among equals the one
  // with the fewest connections.
  Place PlaceConnection();

  // A place on that thread.
  Place PlaceOn(std::size_t index) {
    return Place(threads_[index]->loop, threads_[index]->connections);
  }

 private:
  struct IoThread {
    IoThread(std::size_t index, Resolver& resolver) : loop(index, resolver) {}

    EpollLoop loop;
    std::atomic<int> connections = 0;
    Thread thread;
  };

  std::unique_ptr<Resolver> resolver_;
  std::vector<std::unique_ptr<IoThread>> threads_;
};

}  // namespace sluice::net
