// Which parts of the store (see Store::PartOf) have just come back. Their counters lack the units
// that servers admitted without them, until every server has charged them, and another server may
// find a part later than this one. For a while, therefore, checks that were decided locally
// continue to be decided locally, within this server's share.
//
// Thread-safe. Uses the store's clock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "base/clock.h"
#include "base/mutex.h"
#include "store/store.h"

namespace sluice {

class Recovery {
 public:
  // No part has failed recently. A plain load, on the path of every check.
  bool is_over() const { return recovering_.load(std::memory_order_relaxed) == 0; }

  void OnFailure(std::size_t part, Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Part& failed = parts_[part];
    if (failed.state != State::kOver) return;
    Enter(failed, State::kFailing);
    failed.since = now;
  }

  // Called when the part has decided. Returns whether it has not failed recently.
  bool OnDecided(std::size_t part, Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Part& decided = parts_[part];
    if (decided.state == State::kFailing) {
      // Pauses between reconnects grow with the outage.
      decided.until = now + std::clamp(2 * (now - decided.since), Duration::zero(), kLongest);
      Enter(decided, State::kSettling);
    }
    EndIfDue(decided, now);
    return decided.state == State::kOver;
  }

  // Whether checks still avoid the part.
  bool Settles(std::size_t part, Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    EndIfDue(parts_[part], now);
    return parts_[part].state == State::kSettling;
  }

 private:
  enum class State { kOver, kFailing, kSettling };
  struct Part {
    State state = State::kOver;
    Time since;  // since when it has failed
    Time until;  // until when checks avoid it
  };

  // The longest reconnect pause plus time for a few charges. The store decides again within a
  // second.
  static constexpr Duration kLongest = std::chrono::milliseconds(450);

  void Enter(Part& part, State state) SLUICE_REQUIRES(mutex_) {
    recovering_.fetch_add((state != State::kOver) - (part.state != State::kOver),
                          std::memory_order_relaxed);
    part.state = state;
  }
  // A clock that is set back ends it as well.
  void EndIfDue(Part& part, Time now) SLUICE_REQUIRES(mutex_) {
    if (part.state != State::kSettling) return;
    if (now >= part.until || now < part.until - kLongest) Enter(part, State::kOver);
  }

  Mutex mutex_;
  std::array<Part, Store::kParts> parts_ SLUICE_GUARDED_BY(mutex_){};
  std::atomic<int> recovering_{0};  // parts that are not kOver; written under mutex_
};

}  // namespace sluice
