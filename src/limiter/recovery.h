// Whether the store has just come back. Its counters do not hold yet what servers have let pass
// without it: each server charges them once the store is back for it, and that may be later than
// for this one. So for a while, what was decided in this process goes on being decided there, of
// what is left of this server's share.
//
// Thread-safe. On the store's clock.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice {

class Recovery {
 public:
  // The store has not failed of late. A plain load, for every check.
  bool is_over() const { return state_.load(std::memory_order_relaxed) == State::kOver; }

  void OnFailure(Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (state_ != State::kOver) return;
    Enter(State::kFailing);
    since_ = now;
  }

  // By the store.
  void OnDecided(Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (state_ == State::kFailing) {
      // Pauses between attempts to reach the store grow with the outage.
      until_ = now + std::clamp(2 * (now - since_), Duration::zero(), kLongest);
      Enter(State::kSettling);
    }
    EndIfDue(now);
  }

  // Whether the store is to be left alone for now.
  bool Settles(Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    EndIfDue(now);
    return state_ == State::kSettling;
  }

 private:
  enum class State { kOver, kFailing, kSettling };

  // The longest pause between two attempts, and a few charges. Decisions are the store's again
  // within a second.
  static constexpr Duration kLongest = std::chrono::milliseconds(450);

  void Enter(State state) SLUICE_REQUIRES(mutex_) {
    state_.store(state, std::memory_order_relaxed);
  }
  // A clock set back ends it, too.
  void EndIfDue(Time now) SLUICE_REQUIRES(mutex_) {
    if (state_ != State::kSettling) return;
    if (now >= until_ || now < until_ - kLongest) Enter(State::kOver);
  }

  Mutex mutex_;
  std::atomic<State> state_{State::kOver};  // written under mutex_
  Time since_ SLUICE_GUARDED_BY(mutex_);    // it has failed
  Time until_ SLUICE_GUARDED_BY(mutex_);    // it is left alone
};

}  // namespace sluice
