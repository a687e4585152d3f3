#include "lease_keeper.h"

#include <algorithm>
#include <iostream>
#include <random>
#include <utility>

namespace sluice {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The timeout of a call, including its wait for a connection. So the destructor of the client waits
// at most this long for pending releases.
constexpr microseconds kTimeout = std::chrono::seconds(5);
// The pauses between attempts to settle: each is twice as long as the one before, up to kLastPause.
constexpr milliseconds kFirstPause(100);
constexpr milliseconds kLastPause(1000);

// A random part of the pause, from half to all, so that not all settlements are repeated at once.
milliseconds Jitter(milliseconds pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  return milliseconds(
      std::uniform_int_distribution<milliseconds::rep>(pause.count() / 2, pause.count())(random));
}

// Starts a call whose answer is ignored.
template <class Request, class Response>
void Send(PendingCalls& calls, PendingCalls::Method<Request, Response> method, Request request,
          microseconds timeout) {
  calls.Start<Request, Response>(method, std::move(request), timeout,
                                 [](const grpc::Status&, const Response&) {});
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
    const std::lock_guard lock(mutex_);
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

// Sets the fields of the request that tell how the work went.
template <class Request>
void LeaseKeeper::SetHold(const Work& work, Request& request) const {
  v1::HoldOutcome outcome = work.outcome_;
  if (outcome == v1::HOLD_OUTCOME_UNSPECIFIED) {
    outcome = v1::HOLD_OUTCOME_OK;
    if (options_.overloaded && options_.overloaded()) outcome = v1::HOLD_OUTCOME_OVERLOAD;
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
  }
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(id);
  SetHold(work, request);
  Send<v1::ReleaseLeaseRequest, v1::ReleaseLeaseResponse>(
      calls_, &PendingCalls::AsyncStub::ReleaseLease, std::move(request), kTimeout);
}

void LeaseKeeper::Settle(const std::string& id, const Amounts& used, bool local, const Work& work) {
  Settlement settlement{{}, local, Clock::now() + options_.settle_for, kFirstPause};
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
    std::vector<Settlement> due = TakeDue(now);
    if (due.empty()) {
      changed_.wait_until(lock, NextDue(now));
    } else {
      lock.unlock();  // gRPC may call Attempted on this thread
      for (Settlement& settlement : due) Attempt(std::move(settlement));
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
    Send<v1::RenewLeaseRequest, v1::RenewLeaseResponse>(
        calls_, &PendingCalls::AsyncStub::RenewLease, std::move(request),
        std::min(renewal.period, kTimeout));
    renewal.due = now + renewal.period;
  }
}

std::vector<LeaseKeeper::Settlement> LeaseKeeper::TakeDue(Clock::time_point now) {
  std::vector<Settlement> due;
  while (!closed_ && !settlements_.empty() && settlements_.begin()->first <= now) {
    due.push_back(std::move(settlements_.begin()->second));
    settlements_.erase(settlements_.begin());
  }
  return due;
}

LeaseKeeper::Clock::time_point LeaseKeeper::NextDue(Clock::time_point now) const {
  auto next = now + std::chrono::hours(1);
  for (const auto& [id, renewal] : renewals_) next = std::min(next, renewal.due);
  if (!closed_ && !settlements_.empty()) next = std::min(next, settlements_.begin()->first);
  return next;
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
    const auto next = Clock::now() + Jitter(settlement.pause);
    if (!stored && !closed_ && !IsMistake(status.error_code()) && next < settlement.end) {
      settlement.pause = std::min(2 * settlement.pause, kLastPause);
      settlements_.emplace(next, std::move(settlement));
      changed_.notify_all();
      return;
    }
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
