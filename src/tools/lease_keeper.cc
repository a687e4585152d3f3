#include "tools/lease_keeper.h"

#include <algorithm>
#include <utility>

#include "client/duration.h"

namespace sluice::tools {
namespace {

constexpr Duration kShortestPause = std::chrono::milliseconds(10);
constexpr Duration kLongestPauseAfterFailure = std::chrono::seconds(1);

Duration RenewalPause(Duration ttl) { return std::max(ttl / 3, kShortestPause); }

}  // namespace

LeaseKeeper::LeaseKeeper(Client& client, const v1::Lease& lease, Options options)
    : client_(client),
      id_(lease.id()),
      options_(std::move(options)),
      ttl_(ToDuration(lease.ttl())),
      holds_until_(options_.asked + ttl_),
      thread_("sluice-lease", [this] { Run(); }) {}

LeaseKeeper::~LeaseKeeper() {
  Stop();
  thread_.Join();
}

Result<void> LeaseKeeper::Release(v1::HoldOutcome outcome) {
  Stop();
  v1::ReleaseLeaseRequest ended;
  ended.set_lease_id(id_);
  ended.set_hold_outcome(outcome);
  return client_.ReleaseLease(ended, options_.timeout);
}

Result<v1::SettleLeaseResponse> LeaseKeeper::Settle(v1::SettleLeaseRequest used) {
  Stop();
  used.set_lease_id(id_);
  return client_.SettleLease(used, options_.timeout);
}

void LeaseKeeper::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  stop_.NotifyAll();
}

void LeaseKeeper::Run() {
  SteadyTime due = options_.asked + RenewalPause(ttl_);
  while (state_ != State::kLost && !StoppedBefore(due)) due = Renew();
}

bool LeaseKeeper::StoppedBefore(SteadyTime due) {
  MutexLock lock(mutex_);
  return stop_.WaitUntil(mutex_, due, [this]() SLUICE_REQUIRES(mutex_) { return stopped_; });
}

// Renews the lease. Returns the time of the next renewal.
SteadyTime LeaseKeeper::Renew() {
  const SteadyTime asked = SteadyNow();
  const Duration pause = RenewalPause(ttl_);
  const auto renewed = client_.RenewLease(id_, std::min(options_.timeout, pause));
  if (renewed) {
    ttl_ = *renewed;
    holds_until_ = asked + ttl_;
    Enter(State::kHeld);
    return asked + RenewalPause(ttl_);
  }
  if (renewed.error().code == ErrorCode::kNotFound) {
    Enter(State::kLost, renewed.error());
    return {};
  }
  const bool overdue = SteadyNow() >= holds_until_;
  Enter(overdue ? State::kOverdue : State::kUnanswered, renewed.error());
  const SteadyTime retry = asked + std::min(pause, kLongestPauseAfterFailure);
  return overdue ? retry : std::min(retry, holds_until_);
}

void LeaseKeeper::Enter(State state, const Error& reason) {
  if (state == std::exchange(state_, state)) return;
  {
    // If a renewal comes after the release, it fails. This failure is not reported.
    MutexLock lock(mutex_);
    if (stopped_) return;
  }
  options_.on_change({.state = state,
                      .reason = reason,
                      .left = std::chrono::ceil<Duration>(holds_until_ - SteadyNow())});
}

}  // namespace sluice::tools
