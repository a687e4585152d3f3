#include "lease_keeper.h"

#include <algorithm>
#include <iostream>
#include <random>
#include <utility>

namespace sluice {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The timeout of a call, including its wait for a connection, and of all attempts to release a
// lease. So the destructor of the client waits at most this long for pending releases.
constexpr microseconds kTimeout = std::chrono::seconds(5);
// The pauses between attempts: each is twice as long as the one before, up to kLastPause.
constexpr milliseconds kFirstPause(100);
constexpr milliseconds kLastPause(1000);

// A random part of the pause, from half to all, so that not all calls are repeated at once.
milliseconds Jitter(milliseconds pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  return milliseconds(
      std::uniform_int_distribution<milliseconds::rep>(pause.count() / 2, pause.count())(random));
}

}  // namespace

microseconds ToChrono(const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds()) +
         std::chrono::ceil<microseconds>(std::chrono::nanoseconds(duration.nanos()));
}

bool IsMistake(grpc::StatusCode code) {
  return code == grpc::StatusCode::INVALID_ARGUMENT ||
         code == grpc::StatusCode::PERMISSION_DENIED || code == grpc::StatusCode::UNAUTHENTICATED ||
         code == grpc::StatusCode::UNIMPLEMENTED;
}

LeaseKeeper::LeaseKeeper(PendingCalls& calls, const Options& options)
    : calls_(calls), options_(options), thread_([this] { Run(); }) {}

LeaseKeeper::~LeaseKeeper() { Stop(); }

void LeaseKeeper::Stop() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return releasing_ == 0; });
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LeaseKeeper::Add(const std::string& id, const google::protobuf::Duration& ttl) {
  const auto period = std::max<microseconds>(ToChrono(ttl) / 3, milliseconds(1));
  {
    const std::lock_guard lock(mutex_);
    renewals_[id] = {Clock::now() + period, period};
  }
  changed_.notify_all();
}

bool LeaseKeeper::IsOverloaded() {
  bool overloaded = false;
  if (!options_.overloaded) return overloaded;
  CallUnlessThrows([&] { overloaded = options_.overloaded(); },
                   [this](const std::string& why) {
                     std::call_once(warned_, [&] {
                       std::cerr << "sluice: taken as false: Options::overloaded threw: " << why
                                 << '\n';
                     });
                   });
  return overloaded;
}

// Sets the fields of the request that tell how the work went.
template <class Request>
void LeaseKeeper::SetHold(const Work& work, Request& request) {
  v1::HoldOutcome outcome = work.outcome_;
  if (outcome == v1::HOLD_OUTCOME_UNSPECIFIED) {
    outcome = v1::HOLD_OUTCOME_OK;
    if (IsOverloaded()) outcome = v1::HOLD_OUTCOME_OVERLOAD;
    if (std::uncaught_exceptions() > work.exceptions_) outcome = v1::HOLD_OUTCOME_IGNORE;
  }
  request.set_hold_outcome(outcome);
  if (!work.duration_) return;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(*work.duration_);
  request.mutable_duration()->set_seconds(seconds.count());
  request.mutable_duration()->set_nanos(
      static_cast<int>(std::chrono::nanoseconds(*work.duration_ - seconds).count()));
}

void LeaseKeeper::Release(const std::string& id, const Work& work) {
  {
    const std::lock_guard lock(mutex_);
    renewals_.erase(id);
    ++releasing_;
  }
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(id);
  SetHold(work, request);
  AttemptRelease({std::move(request), Clock::now() + kTimeout, kFirstPause});
}

void LeaseKeeper::Settle(const std::string& id, const Amounts& used, bool local, const Work& work) {
  Settlement settlement{{{}, Clock::now() + options_.settle_for, kFirstPause}, local};
  settlement.request.set_lease_id(id);
  SetHold(work, settlement.request);
  for (const auto& [name, value] : used) {
    if (name == "cost") {
      settlement.request.set_cost(value);
    } else {
      (*settlement.request.mutable_amounts())[name] = value;
    }
  }
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    renewals_.erase(id);
    full = settling_ >= options_.max_settlements;
    ++(full ? lost_ : settling_);
  }
  if (full) {
    ReportLost("too many others are waiting");
  } else {
    Attempt(std::move(settlement));
  }
}

std::size_t LeaseKeeper::Close() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, options_.drain, [this] { return settling_ == 0; });
  closed_ = true;
  return lost_ + settling_;
}

void LeaseKeeper::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto now = Clock::now();
    RenewDue(now);
    const std::vector<std::function<void()>> due = TakeDue(now);
    if (due.empty()) {
      changed_.wait_until(lock, NextDue(now));
    } else {
      lock.unlock();  // gRPC may call Attempted on this thread
      for (const auto& attempt : due) attempt();
      lock.lock();
    }
  }
}

// This function and the next two require that the caller holds mutex_.
void LeaseKeeper::RenewDue(Clock::time_point now) {
  for (auto& [id, renewal] : renewals_) {
    if (renewal.due > now) continue;
    v1::RenewLeaseRequest request;
    request.set_lease_id(id);
    calls_.Start<v1::RenewLeaseRequest, v1::RenewLeaseResponse>(
        &PendingCalls::AsyncStub::RenewLease, std::move(request),
        std::min(renewal.period, kTimeout),
        [](const grpc::Status&, const v1::RenewLeaseResponse&) {});
    renewal.due = now + renewal.period;
  }
}

std::vector<std::function<void()>> LeaseKeeper::TakeDue(Clock::time_point now) {
  std::vector<std::function<void()>> due;
  while (!attempts_.empty() && attempts_.begin()->first <= now) {
    due.push_back(std::move(attempts_.begin()->second));
    attempts_.erase(attempts_.begin());
  }
  return due;
}

LeaseKeeper::Clock::time_point LeaseKeeper::NextDue(Clock::time_point now) const {
  auto next = now + std::chrono::hours(1);
  for (const auto& [id, renewal] : renewals_) next = std::min(next, renewal.due);
  if (!attempts_.empty()) next = std::min(next, attempts_.begin()->first);
  return next;
}

template <class Call>
bool LeaseKeeper::Repeat(Call& call, const grpc::Status& status,
                         void (LeaseKeeper::*attempt)(Call)) {
  const auto next = Clock::now() + Jitter(call.pause);
  if (IsMistake(status.error_code()) || next >= call.end) return false;
  call.pause = std::min(2 * call.pause, kLastPause);
  attempts_.emplace(next, [this, attempt, call] { (this->*attempt)(call); });
  changed_.notify_all();
  return true;
}

void LeaseKeeper::AttemptRelease(Repeated<v1::ReleaseLeaseRequest> release) {
  v1::ReleaseLeaseRequest request = release.request;
  const auto left = std::chrono::duration_cast<microseconds>(release.end - Clock::now());
  calls_.Start<v1::ReleaseLeaseRequest, v1::ReleaseLeaseResponse>(
      &PendingCalls::AsyncStub::ReleaseLease, std::move(request), left,
      [this, release = std::move(release)](const grpc::Status& status,
                                           const v1::ReleaseLeaseResponse&) mutable {
        const std::lock_guard lock(mutex_);
        if (!status.ok() && Repeat(release, status, &LeaseKeeper::AttemptRelease)) return;
        --releasing_;
        changed_.notify_all();
      });
}

void LeaseKeeper::Attempt(Settlement settlement) {
  v1::SettleLeaseRequest request = settlement.request;
  calls_.Start<v1::SettleLeaseRequest, v1::SettleLeaseResponse>(
      &PendingCalls::AsyncStub::SettleLease, std::move(request), kTimeout,
      [this, settlement = std::move(settlement)](const grpc::Status& status,
                                                 const v1::SettleLeaseResponse& response) mutable {
        Attempted(std::move(settlement), status, response.outcome());
      });
}

void LeaseKeeper::Attempted(Settlement settlement, const grpc::Status& status,
                            v1::Outcome outcome) {
  // After QUEUED, the settlement is repeated, since the server that queued it may die. It is also
  // repeated after NOT_FOUND if the lease was taken during an outage: such a lease is not found
  // until its server reaches the store.
  const bool stored = status.ok() && outcome != v1::OUTCOME_QUEUED &&
                      !(settlement.local && outcome == v1::OUTCOME_NOT_FOUND);
  {
    const std::lock_guard lock(mutex_);
    if (!stored && !closed_ && Repeat(settlement, status, &LeaseKeeper::Attempt)) return;
    --settling_;
    if (!stored) ++lost_;
    changed_.notify_all();
  }
  if (!stored) ReportLost(status.ok() ? "the store does not answer" : status.error_message());
}

void LeaseKeeper::ReportLost(const std::string& why) {
  if (options_.lost_settlement) {
    options_.lost_settlement(why);
  } else {
    std::cerr << "sluice: a settlement is lost, its lease stays charged as taken: " << why << '\n';
  }
}

}  // namespace sluice
