// What a CheckLimitResponse says, in headers of HTTP.
#pragma once

#include "http/http_message.h"

namespace sluice {

namespace v1 {
class CheckLimitResponse;
}

// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers): an item for each enforced
// limit whose state is known, named by its rule. Retry-After of a denial that a retry may overcome,
// in whole seconds, rounded up.
HttpHeaders RateLimitHeaders(const v1::CheckLimitResponse& response);

}  // namespace sluice
