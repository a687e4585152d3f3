// The event loop of one io thread. What the loop owns (transports, timers, calls) lives and dies on
// its thread, so none of it needs a lock.
//
// The loop works in turns. A turn takes in what is ready (bytes, posted tasks, timers) and then
// flushes: first to stores, then to callers, one send per connection. All that a turn brought so
// leaves together.
//
// Derived classes bring the turns: EpollLoop from the kernel, a simulated one from a test's seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/timer_wheel.h"
#include "net/transport.h"

namespace sluice::net {

class Socket;

class Loop {
 public:
  using Task = std::function<void()>;

  virtual ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // The loop whose thread this is; null on any other thread.
  static Loop* Current();

  // The place of the loop among the io threads, from 0.
  std::size_t index() const { return index_; }

  // Runs `task` on the loop's thread, in its own turn order; never before Post returns.
  // Thread-safe. A task that the loop has not run when it dies is dropped.
  virtual void Post(Task task) = 0;

  // Everything below: loop thread only.

  // The time at which this turn began.
  SteadyTime now() const { return now_; }

  // Uniform over all 64-bit numbers; not for secrets.
  std::uint64_t Random() { return random_(); }

  TimerWheel& timers() { return timers_; }
  const TimerWheel& timers() const { return timers_; }

  // Calls `flushable.Flush()` once, at the end of this turn.
  void RequestFlush(Flushable& flushable);

  // Destroys `object` at the end of this turn: for objects that may be on the call stack.
  void DisposeLater(std::unique_ptr<Disposable> object);

  // A transport on a connected socket, with flushes in `stage`. It does nothing until Start.
  virtual TransportPtr Adopt(Socket socket, FlushStage stage) = 0;

  // Connects to `address` and calls `done` once with the transport, or with kUnavailable and the
  // reason; never before Connect returns, and not at all once the returned attempt is destroyed.
  // Every address of the name is tried in turn. Resolving the name may take as long as it takes;
  // connecting to one of its addresses may take `connect_timeout`.
  virtual std::unique_ptr<ConnectAttempt> Connect(const Address& address, Duration connect_timeout,
                                                  FlushStage stage, ConnectDone done) = 0;

 protected:
  Loop(std::size_t index, std::uint64_t seed);

  // One turn, from the derived class: BeginTurn, then deliver what is ready, then EndTurn, which
  // fires timers, flushes and disposes.
  void BeginTurn(SteadyTime now);
  void EndTurn();

  // Destroys all that was disposed of. Derived destructors call it while transports can still tell
  // the loop that they close.
  void DisposeAll();

  // Makes this loop the thread's own, or none again.
  static void SetCurrent(Loop* loop);

 private:
  static constexpr std::size_t kStages = 2;

  void FlushAll();

  const std::size_t index_;
  SteadyTime now_;
  std::mt19937_64 random_;
  TimerWheel timers_;
  std::array<std::vector<Flushable*>, kStages> to_flush_;
  std::array<std::size_t, kStages> flushed_{};  // how many of to_flush_ are done
  std::vector<std::unique_ptr<Disposable>> disposed_;
};

}  // namespace sluice::net
