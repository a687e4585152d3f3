// The event loop of one io thread. Its objects (transports, timers, calls) are created, used and
// destroyed on that thread, so they need no locks.
//
// An iteration processes what is ready (bytes, posted tasks, timers) and then flushes: first to
// stores, then to callers, usually with one send per connection. So the output of an iteration is
// batched.
//
// Derived classes drive the iterations: EpollLoop from the kernel's events, a simulated loop from a
// test's seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/timer_queue.h"
#include "net/transport.h"

namespace sluice::net {

class Socket;

// Kinds of long tasks. Many tasks of one kind do not delay tasks of another kind.
enum class LongWork : std::uint8_t { kHandshake, kHeaders, kJson };

class Loop {
 public:
  using Task = std::function<void()>;

  virtual ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // The loop of the calling thread, or null if the thread is not an io thread.
  static Loop* Current();

  // The index of the loop's io thread, from 0.
  std::size_t index() const { return index_; }

  // Queues `task` to run on the loop's thread, in the order of posting. The loop's destructor drops
  // tasks that did not run. Thread-safe.
  virtual void Post(Task task) = 0;

  // All functions below: loop thread only.

  // Queues a long `task`, which takes from a tenth of a millisecond to a few milliseconds. An
  // iteration runs at most one long task of each kind, so that other work never waits for many of
  // them. The loop's destructor drops tasks that did not run.
  void PostLong(LongWork kind, Task task);

  // The time at which this iteration began.
  SteadyTime now() const { return now_; }

  // A uniformly distributed 64-bit number. Not for secrets.
  std::uint64_t Random() { return random_(); }

  TimerQueue& timers() { return timers_; }
  const TimerQueue& timers() const { return timers_; }

  // Calls `flushable.Flush()` once at the end of this iteration.
  void RequestFlush(Flushable& flushable);

  // Destroys `object` at the end of this iteration. For objects whose functions may be running.
  void DisposeLater(std::unique_ptr<Disposable> object);

  // Wraps a connected socket in a transport that is flushed in `stage`. The transport is inactive
  // until its Start.
  virtual TransportPtr Adopt(Socket socket, FlushStage stage) = 0;

  // Connects to `address` and calls `done` once, after Connect has returned, with the transport or
  // with kUnavailable and the cause. Destroying the returned attempt cancels it. All addresses of
  // the name are tried in order, each for up to `connect_timeout`. Resolving has no timeout.
  virtual std::unique_ptr<ConnectAttempt> Connect(const Address& address, Duration connect_timeout,
                                                  FlushStage stage, ConnectDone done) = 0;

 protected:
  Loop(std::size_t index, std::uint64_t seed);

  // The derived class calls BeginIteration, delivers what is ready, and calls EndIteration, which
  // fires timers, flushes and disposes.
  void BeginIteration(SteadyTime now);
  void EndIteration();

  // Destroys the long tasks that did not run, and all objects passed to DisposeLater. Destructors
  // of derived classes call it while transports can still use the loop.
  void DropAll();

  // Sets Current() of the calling thread.
  static void SetCurrent(Loop* loop);

 private:
  static constexpr std::size_t kStages = 2;
  static constexpr std::size_t kKindsOfLongWork = 3;

  void RunLongTask(LongWork kind);
  void FlushAll();
  void DisposeAll();

  const std::size_t index_;
  SteadyTime now_;
  std::mt19937_64 random_;
  TimerQueue timers_;
  std::array<std::deque<Task>, kKindsOfLongWork> long_tasks_;
  std::array<std::vector<Flushable*>, kStages> to_flush_;
  std::array<std::size_t, kStages> flushed_{};  // number of entries already flushed
  std::vector<std::unique_ptr<Disposable>> disposed_;
};

}  // namespace sluice::net
