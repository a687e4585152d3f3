// Writes the answers of sluice.v1.RateLimiter.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include <sluice/v1/rate_limiter.pb.h>

#include "base/result.h"
#include "limiter/check_answer.h"
#include "limiter/lease_call.h"

namespace sluice {

// Fills in all fields of `to`, which must be empty.
void Fill(const CheckAnswer& answer, std::string_view request_id, v1::CheckLimitResponse& to);
void Fill(const LimitAnswer& answer, v1::LimitStatus& to);

// Appends a serialized CheckLimitResponse.
void AppendResponse(const CheckAnswer& answer, std::string_view request_id, std::string& out);

// Appends a serialized CheckLimitsResponse with one result. If such messages are concatenated, they
// form one message with all results.
void AppendResult(const Result<CheckAnswer>& answer, std::string_view request_id, std::string& out);

void Fill(const LeasedLimit& limit, v1::LimitStatus& to);

// Appends a serialized SettleLeaseResponse.
void AppendSettlement(const LeaseReport& report, std::string& out);

// Appends a serialized RenewLeaseResponse.
void AppendRenewal(Duration ttl, std::string& out);

}  // namespace sluice
