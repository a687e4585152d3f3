// Writes the answers of sluice.v1.RateLimiter byte for byte as protobuf does, but without generated
// messages, which allocate for each duration.
//
// Thread-safe. Every function appends to `out`.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "limiter/check_answer.h"

namespace sluice {

// A CheckLimitResponse.
void AppendResponse(const CheckAnswer& answer, std::string_view request_id, std::string& out);

// A CheckLimitsResponse with one result. Concatenated, such messages form one message with all
// their results.
void AppendResult(const Result<CheckAnswer>& answer, std::string_view request_id, std::string& out);

// A LimitStatus.
void AppendLimitStatus(const LimitAnswer& answer, std::string& out);

// A RenewLeaseResponse.
void AppendRenewal(Duration ttl, std::string& out);

}  // namespace sluice
