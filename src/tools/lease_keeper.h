// Holds a lease while its owner works: a thread of its own renews it whenever a third of its ttl
// has passed, and sooner again after a renewal that failed.
//
// Thread-safe but for Release, which is for one thread.
#pragma once

#include <functional>
#include <string>

#include "base/mutex.h"
#include "base/thread.h"
#include "client/client.h"

namespace sluice::tools {

class LeaseKeeper {
 public:
  enum class State {
    kHeld,
    kUnanswered,  // a renewal failed; the lease holds until its ttl passes
    kOverdue,     // its ttl has passed, as far as is known: another may have the slot
    kLost,        // it has expired, for good
  };

  struct Change {
    State state = State::kHeld;
    Error reason;     // of the renewal that failed
    Duration left{};  // how long the lease still holds
  };
  // Called on the keeper's thread, once for every change of state.
  using OnChange = std::function<void(const Change&)>;

  struct Options {
    SteadyTime asked;  // when the lease was asked for: it holds its ttl from then on, at least
    Duration timeout;  // of each call
    OnChange on_change;
  };

  // `client` must outlive the keeper.
  LeaseKeeper(Client& client, const v1::Lease& lease, Options options);

  // Ends the renewals, without giving the lease back.
  ~LeaseKeeper();

  // Gives the lease back and ends the renewals; no change is told of any more.
  Result<void> Release();

 private:
  void Run();
  bool StoppedBefore(SteadyTime due);
  SteadyTime Renew();
  void Enter(State state, const Error& reason = {});
  void Stop();

  Client& client_;
  const std::string id_;
  const Options options_;

  // Of the keeper's thread alone.
  State state_ = State::kHeld;
  Duration ttl_;
  SteadyTime holds_until_;

  Mutex mutex_;
  CondVar stop_;
  bool stopped_ SLUICE_GUARDED_BY(mutex_) = false;

  Thread thread_;
};

}  // namespace sluice::tools
