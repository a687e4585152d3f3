// HTTP rate limit headers for a CheckLimitResponse.
#pragma once

#include "http/http_message.h"

namespace sluice {

namespace v1 {
class CheckLimitResponse;
}

// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) have an item for each
// enforced limit whose state is known, named after its rule. Retry-After, in seconds rounded up, is
// set if a retry can succeed.
HttpHeaders RateLimitHeaders(const v1::CheckLimitResponse& response);

}  // namespace sluice
