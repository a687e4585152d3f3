#include "lease_keeper.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

using std::chrono::microseconds;

// The timeout of a renewal or a release. The destructor of the client waits as long.
constexpr microseconds kTimeout = std::chrono::seconds(5);

// The answer is ignored.
template <class Request, class Response>
void Send(PendingCalls& calls, PendingCalls::Method<Request, Response> method,
          const std::string& lease_id, microseconds timeout) {
  Request request;
  request.set_lease_id(lease_id);
  calls.Start<Request, Response>(method, std::move(request), timeout,
                                 [](const grpc::Status&, const Response&) {});
}

}  // namespace

LeaseKeeper::LeaseKeeper(PendingCalls& calls) : calls_(calls), thread_([this] { Run(); }) {}

LeaseKeeper::~LeaseKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LeaseKeeper::Add(const std::string& id, microseconds ttl) {
  const auto period = std::max<microseconds>(ttl / 3, std::chrono::milliseconds(1));
  {
    const std::lock_guard lock(mutex_);
    renewals_[id] = {Clock::now() + period, period};
  }
  changed_.notify_all();
}

void LeaseKeeper::Release(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    renewals_.erase(id);
  }
  Send<v1::ReleaseLeaseRequest, v1::ReleaseLeaseResponse>(
      calls_, &PendingCalls::AsyncStub::ReleaseLease, id, kTimeout);
}

void LeaseKeeper::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto now = Clock::now();
    auto next = now + std::chrono::hours(1);
    for (auto& [id, renewal] : renewals_) {
      if (renewal.due <= now) {
        Send<v1::RenewLeaseRequest, v1::RenewLeaseResponse>(
            calls_, &PendingCalls::AsyncStub::RenewLease, id, std::min(renewal.period, kTimeout));
        renewal.due = now + renewal.period;
      }
      next = std::min(next, renewal.due);
    }
    changed_.wait_until(lock, next);
  }
}

}  // namespace sluice
