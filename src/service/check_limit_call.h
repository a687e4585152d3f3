// One CheckLimit RPC after the other, from the request on the wire to the answer on it.
#pragma once

#include <string_view>

#include <sluice/v1/rate_limiter.pb.h>

#include "limiter/check_call.h"
#include "service/rate_limiter_service.h"
#include "service/unary_call.h"

namespace sluice {

class CheckLimitCall final : public UnaryCall, private CheckCall {
 public:
  // `pool`, `service` and `limiter` must outlive the call.
  CheckLimitCall(CallPool& pool, RateLimiterService& service, Limiter& limiter)
      : UnaryCall(pool, service, &RateLimiterService::RequestCheckLimit), CheckCall(limiter) {}

 private:
  void Serve() override;
  void OnAnswer(const Result<CheckAnswer>& answer) override;

  std::string_view request_id_;
  v1::CheckLimitResponse response_;
};

}  // namespace sluice
