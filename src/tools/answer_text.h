// Formats a server's answer as text: the decision and its cause on the first line, then one line
// per limit.
#pragma once

#include <string>

#include "sluice/v1/rate_limiter.pb.h"

namespace sluice::tools {

// Facts that are not in the answer.
struct DecisionContext {
  std::string ruled_by;     // the rule that decided without counting, if known
  std::string domain_hint;  // `(did you mean "shop"?)`, if the domain is unknown
  bool waited = false;      // the caller has already slept for the answer's wait
};

// The whole text, beginning with a line such as
// `DENIED  by pay-per-user (token_bucket 0 of 20 left)  retry in 85 ms`. Ends with a newline.
std::string AnswerText(const v1::CheckLimitRequest& request, const v1::CheckLimitResponse& response,
                       const DecisionContext& context = {});

// The first line of the text.
std::string DecisionText(const v1::CheckLimitRequest& request,
                         const v1::CheckLimitResponse& response,
                         const DecisionContext& context = {});

// Returns true if the request was a charge that a limit has counted, even if it was denied.
bool WasCharged(const v1::CheckLimitRequest& request, const v1::CheckLimitResponse& response);

// Returns "token_bucket" for ALGORITHM_TOKEN_BUCKET, and so on.
std::string AlgorithmText(v1::Algorithm algorithm);

// The state of a limit: "19 of 20 left  resets in 100 ms".
std::string LimitStateText(const v1::LimitStatus& limit);

// The outcome of a settlement, then one line per limit.
std::string SettlementText(const v1::SettleLeaseResponse& response);

// What a lease holds of a limit: "pay-per-user[0]  token_bucket  held 4000".
std::string HeldText(const v1::LimitStatus& limit);

}  // namespace sluice::tools
