// One answer of a server, for people: the decision and what decided it on the first line, then one
// line per limit.
#pragma once

#include <string>

#include "sluice/v1/rate_limiter.pb.h"

namespace sluice::tools {

// `DENIED  by pay-per-user (token_bucket 0 of 20 left)  retry in 85 ms`, and so on. Ends with a
// newline. `waited`: the caller has slept as long as the answer said.
std::string AnswerText(const v1::CheckLimitRequest& request, const v1::CheckLimitResponse& response,
                       bool waited = false);

// What the answer itself does not tell.
struct DecisionContext {
  std::string ruled_by;  // the rule that decided without counting, if that is known
  bool waited = false;   // the caller has slept as long as the answer said
};

// Its first line.
std::string DecisionText(const std::string& domain, const v1::CheckLimitResponse& response,
                         const DecisionContext& context = {});

// "token_bucket" of ALGORITHM_TOKEN_BUCKET.
std::string AlgorithmText(v1::Algorithm algorithm);

// How a limit stands: "19 of 20 left  resets in 100 ms".
std::string StandingText(const v1::LimitStatus& limit);

}  // namespace sluice::tools
