// One answer of a server, for people: the decision and what decided it on the first line, then one
// line per limit.
#pragma once

#include <string>

#include "sluice/v1/rate_limiter.pb.h"

namespace sluice::tools {

// `DENIED  by pay-per-user (token_bucket 0 of 20 left)  retry in 85 ms`, and so on. Ends with a
// newline.
std::string AnswerText(const v1::CheckLimitRequest& request,
                       const v1::CheckLimitResponse& response);

}  // namespace sluice::tools
