// The RateLimiter service of the API: served asynchronously, as bytes.
#pragma once

#include <sluice/v1/rate_limiter.grpc.pb.h>

namespace sluice {

class RateLimiterService final
    : public v1::RateLimiter::WithRawMethod_CheckLimit<v1::RateLimiter::WithRawMethod_CheckLimits<
          v1::RateLimiter::WithRawMethod_CheckLimitStream<v1::RateLimiter::WithRawMethod_RenewLease<
              v1::RateLimiter::WithRawMethod_ReleaseLease<v1::RateLimiter::Service>>>>> {};

}  // namespace sluice
