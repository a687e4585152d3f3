#include "lease_keeper.h"

#include <algorithm>
#include <utility>

#include <grpcpp/client_context.h>

namespace sluice {
namespace {

// A call whose answer nobody waits for. It keeps itself and the stub until it is over.
template <class Request, class Response>
struct Call {
  std::shared_ptr<v1::RateLimiter::Stub> stub;
  grpc::ClientContext context;
  Request request;
  Response response;
};

template <class Request, class Response>
auto MakeCall(std::shared_ptr<v1::RateLimiter::Stub> stub, const std::string& lease_id,
              std::chrono::microseconds timeout) {
  auto call = std::make_shared<Call<Request, Response>>();
  call->stub = std::move(stub);
  call->context.set_deadline(std::chrono::system_clock::now() + timeout);
  call->request.set_lease_id(lease_id);
  return call;
}

}  // namespace

LeaseKeeper::LeaseKeeper(std::shared_ptr<v1::RateLimiter::Stub> stub)
    : stub_(std::move(stub)), thread_([this] { Run(); }) {}

LeaseKeeper::~LeaseKeeper() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return releasing_ == 0; });
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void LeaseKeeper::Add(const std::string& id, std::chrono::microseconds ttl) {
  const auto period = std::max<std::chrono::microseconds>(ttl / 3, std::chrono::milliseconds(1));
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
    ++releasing_;
  }
  auto call = MakeCall<v1::ReleaseLeaseRequest, v1::ReleaseLeaseResponse>(stub_, id,
                                                                          std::chrono::seconds(5));
  stub_->async()->ReleaseLease(&call->context, &call->request, &call->response,
                               [this, call](const grpc::Status&) {
                                 const std::lock_guard lock(mutex_);
                                 --releasing_;
                                 changed_.notify_all();
                               });
}

void LeaseKeeper::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto now = Clock::now();
    auto next = now + std::chrono::hours(1);
    for (auto& [id, renewal] : renewals_) {
      if (renewal.due <= now) {
        Renew(id, renewal.period);
        renewal.due = now + renewal.period;
      }
      next = std::min(next, renewal.due);
    }
    changed_.wait_until(lock, next);
  }
}

void LeaseKeeper::Renew(const std::string& id, std::chrono::microseconds timeout) {
  auto call = MakeCall<v1::RenewLeaseRequest, v1::RenewLeaseResponse>(stub_, id, timeout);
  stub_->async()->RenewLease(&call->context, &call->request, &call->response,
                             [call](const grpc::Status&) {});
}

}  // namespace sluice
