// Reads a serialized sluice.v1.CheckLimitRequest: the same messages as the generated parser, but
// without a map and without copies.
#pragma once

#include <string_view>

#include "base/result.h"
#include "limiter/check_request.h"

namespace sluice {

inline constexpr std::size_t kMaxRequestIdBytes = 255;

// Replaces `request` and `request_id` by what `bytes` say; their views point into `bytes`. A cost
// of 0 becomes a PEEK; a max_wait is rounded down to microseconds. Of equal attribute names the
// last counts.
//
// Fails with INVALID_ARGUMENT on malformed bytes, and on what has no place in a CheckRequest,
// naming the field. The limits of CheckRequest::Validate are left to it.
Result<void> ParseCheckRequest(std::string_view bytes, CheckRequest& request,
                               std::string_view& request_id);

// The request_id in `bytes` that ParseCheckRequest refuses, so that the caller can tell which of
// its requests that was. Empty if none can be found that is right by itself.
std::string_view FindRequestId(std::string_view bytes);

}  // namespace sluice
