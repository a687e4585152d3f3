// One RenewLease or ReleaseLease RPC after the other.
#pragma once

#include "limiter/lease_call.h"
#include "service/rate_limiter_service.h"
#include "service/unary_call.h"

namespace sluice {

// What tells the two RPCs apart, beside their answers.
struct RenewLeaseRpc {
  static constexpr auto kAction = LeaseCall::Action::kRenew;
  static constexpr auto kRequest = &RateLimiterService::RequestRenewLease;
};
struct ReleaseLeaseRpc {
  static constexpr auto kAction = LeaseCall::Action::kRelease;
  static constexpr auto kRequest = &RateLimiterService::RequestReleaseLease;
};

template <typename Rpc>
class LeaseRpcCall final : public UnaryCall, private LeaseCall {
 public:
  // `pool`, `service` and `limiter` must outlive the call.
  LeaseRpcCall(CallPool& pool, RateLimiterService& service, Limiter& limiter)
      : UnaryCall(pool, service, Rpc::kRequest), LeaseCall(limiter) {}

 private:
  void Serve() override;
  void OnLease(const Result<Duration>& ttl) override;
};

using RenewLeaseCall = LeaseRpcCall<RenewLeaseRpc>;
using ReleaseLeaseCall = LeaseRpcCall<ReleaseLeaseRpc>;

}  // namespace sluice
