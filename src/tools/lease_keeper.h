// Keeps a lease alive: a thread renews it after each third of its ttl, and earlier after a failed
// renewal.
//
// The owner's thread only.
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
    kUnanswered,  // a renewal failed; the lease is valid until its ttl has passed
    kOverdue,     // no renewal within the ttl; the slot may have been granted to another caller
    kLost,        // the server reports that the lease has expired
  };

  struct Change {
    State state = State::kHeld;
    Error reason;     // the error of the failed renewal
    Duration left{};  // how long the lease is still valid
  };
  // Called on the keeper's thread for each change of state.
  using OnChange = std::function<void(const Change&)>;

  struct Options {
    SteadyTime asked;  // when the lease was requested; the ttl counts from this time
    Duration timeout;  // for each call
    OnChange on_change;
  };

  // `client` must outlive the keeper.
  LeaseKeeper(Client& client, const v1::Lease& lease, Options options);

  // Stops the renewals but does not release the lease.
  ~LeaseKeeper();

  const std::string& id() const { return id_; }

  // Releases the lease and stops the renewals. Later changes are not reported.
  Result<void> Release(v1::HoldOutcome outcome);
  // Settles a lease of units and stops the renewals. Later changes are not reported.
  Result<v1::SettleLeaseResponse> Settle(v1::SettleLeaseRequest used);

 private:
  void Run();
  bool StoppedBefore(SteadyTime due);
  SteadyTime Renew();
  void Enter(State state, const Error& reason = {});
  void Stop();

  Client& client_;
  const std::string id_;
  const Options options_;

  // Used by the keeper's thread only.
  State state_ = State::kHeld;
  Duration ttl_;
  SteadyTime holds_until_;

  Mutex mutex_;
  CondVar stop_;
  bool stopped_ SLUICE_GUARDED_BY(mutex_) = false;

  Thread thread_;
};

}  // namespace sluice::tools
