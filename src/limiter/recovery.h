// Which parts of the store (see Store::PartOf) have just come back. Their counters lack the units
// that servers admitted without them, until every server has charged them, and another server may
// find a part later than this one. For a while, therefore, checks that were decided locally
// continue to be decided locally, within this server's share. If connections to the part were not
// lost, that ends as soon as this server has charged its own units.
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

  // A check has failed there.
  void OnFailure(std::size_t part, Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Fail(parts_[part], now);
  }

  // A connection to it is lost or cannot be made.
  void OnLost(std::size_t part, Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Fail(parts_[part], now);
    parts_[part].lost = true;
  }

  // It answers.
  void OnFound(std::size_t part, Time now) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Part& found = parts_[part];
    if (found.state != State::kFailing) return;
    // Pauses between reconnects grow with the outage.
    found.until = now + std::clamp(2 * (now - found.since), Duration::zero(), kLongest);
    Enter(found, State::kSettling);
  }

  // Whether checks still avoid the part. `owes`: this server has admitted units that the store has
  // not been charged yet.
  bool Settles(std::size_t part, Time now, bool owes) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Part& settling = parts_[part];
    if (settling.state != State::kSettling) return false;
    // A clock that is set back ends it as well.
    const bool is_time = settling.until - kLongest <= now && now < settling.until;
    if (is_time && (settling.lost || owes)) return true;
    Enter(settling, State::kOver);
    return false;
  }

 private:
  enum class State { kOver, kFailing, kSettling };
  struct Part {
    State state = State::kOver;
    bool lost = false;  // not only slow
    Time since;         // since when it has failed
    Time until;         // until when checks avoid it
  };

  // The longest reconnect pause plus time for a few charges. The store decides again within a
  // second.
  static constexpr Duration kLongest = std::chrono::milliseconds(450);

  void Enter(Part& part, State state) SLUICE_REQUIRES(mutex_) {
    recovering_.fetch_add((state != State::kOver) - (part.state != State::kOver),
                          std::memory_order_relaxed);
    part.state = state;
  }
  void Fail(Part& part, Time now) SLUICE_REQUIRES(mutex_) {
    if (part.state != State::kOver) return;
    Enter(part, State::kFailing);
    part.lost = false;
    part.since = now;
  }

  Mutex mutex_;
  std::array<Part, Store::kParts> parts_ SLUICE_GUARDED_BY(mutex_){};
  std::atomic<int> recovering_{0};  // parts that are not kOver; written under mutex_
};

}  // namespace sluice
