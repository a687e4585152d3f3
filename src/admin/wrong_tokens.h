// Counts callers with a wrong admin token, logs them at most once a second, and slows those who try
// many: after ten, a peer may try one a second. A peer is what net::Peer calls a network; peers
// whose hashes are equal share the ten.
//
// Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "base/clock.h"
#include "base/mutex.h"
#include "metrics/metrics_registry.h"
#include "net/peer.h"

namespace sluice {

class WrongTokens {
 public:
  // `metrics` must outlive this.
  explicit WrongTokens(MetricsRegistry& metrics);

  // Whether the peer may try a token. If not, that is counted.
  bool MayTry(const net::Peer& peer, SteadyTime now) SLUICE_EXCLUDES(mutex_);
  // The peer's token was wrong.
  void Note(const net::Peer& peer, SteadyTime now) SLUICE_EXCLUDES(mutex_);

 private:
  static constexpr std::chrono::seconds kPause{1};
  static constexpr int kAtOnce = 10;

  SteadyTime& PaidUntil(const net::Peer& peer) SLUICE_REQUIRES(mutex_);

  Counter& wrong_;
  Counter& slowed_;
  Mutex mutex_;
  // By the peer's hash: the time at which all its wrong tokens are forgotten. One is forgotten each
  // second.
  std::array<SteadyTime, 1024> paid_until_ SLUICE_GUARDED_BY(mutex_){};
  SteadyTime next_log_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
