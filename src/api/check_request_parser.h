// Parses a serialized sluice.v1.CheckLimitRequest. Accepts the same messages as the generated
// parser, but uses no map and makes no copies.
#pragma once

#include <string_view>

#include "base/result.h"
#include "limiter/check_request.h"

namespace sluice {

inline constexpr std::size_t kMaxRequestIdBytes = 255;

// Sets `request` and `request_id` from `bytes`; their views point into `bytes`. A cost of 0 becomes
// a PEEK; a max_wait or max_delay is rounded down to microseconds. If attributes have the same
// name, the last counts.
//
// Fails with INVALID_ARGUMENT, naming the field, on malformed bytes and on values that a
// CheckRequest cannot hold. Does not check the limits of CheckRequest::Validate.
Result<void> ParseCheckRequest(std::string_view bytes, CheckRequest& request,
                               std::string_view& request_id);

// The request_id in `bytes` that ParseCheckRequest refused, so that the caller can identify the
// request. Empty if there is no valid one.
std::string_view FindRequestId(std::string_view bytes);

}  // namespace sluice
