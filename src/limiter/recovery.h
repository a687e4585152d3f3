// Whether the store has just come back. Its counters lack the units that servers admitted without
// it, until every server has charged them, and another server may find the store later than this
// one. For a while, therefore, checks that were decided locally continue to be decided locally,
// within this server's share.
//
// Thread-safe. Uses the store's clock.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice {

class Recovery {
 public:
  // The store has not failed recently. A plain load, on the path of every check.
  bool is_over() const { return state_.load(std::memory_order_relaxed) == State::kOver; }

  void OnFailure(Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (state_ != State::kOver) return;
    Enter(State::kFailing);
    since_ = now;
  }

  // Called when the store has decided.
  void OnDecided(Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (state_ == State::kFailing) {
      // Pauses between reconnects grow with the outage.
      until_ = now + std::clamp(2 * (now - since_), Duration::zero(), kLongest);
      Enter(State::kSettling);
    }
    EndIfDue(now);
  }

  // Whether checks still avoid the store.
  bool Settles(Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    EndIfDue(now);
    return state_ == State::kSettling;
  }

 private:
  enum class State { kOver, kFailing, kSettling };

  // The longest reconnect pause plus time for a few charges. The store decides again within a
  // second.
  static constexpr Duration kLongest = std::chrono::milliseconds(450);

  void Enter(State state) SLUICE_REQUIRES(mutex_) {
    state_.store(state, std::memory_order_relaxed);
  }
  // A clock that is set back ends it as well.
  void EndIfDue(Time now) SLUICE_REQUIRES(mutex_) {
    if (state_ != State::kSettling) return;
    if (now >= until_ || now < until_ - kLongest) Enter(State::kOver);
  }

  Mutex mutex_;
  std::atomic<State> state_{State::kOver};  // written under mutex_
  Time since_ SLUICE_GUARDED_BY(mutex_);    // since when it has failed
  Time until_ SLUICE_GUARDED_BY(mutex_);    // until when checks avoid it
};

}  // namespace sluice
