// The response of a no-op CheckLimit server. It is as large as Sluice's, to measure what a call
// costs without the check.
#pragma once

#include "base/clock.h"
#include "sluice/v1/rate_limiter.pb.h"

namespace sluice::bench {

inline void FillAnswer(const v1::CheckLimitRequest& request, v1::CheckLimitResponse& response) {
  response.set_decision(v1::DECISION_ALLOWED);
  response.set_source(v1::SOURCE_STORE);
  const auto now = Clock::System().Now().time_since_epoch().count();
  response.mutable_decided_at()->set_seconds(now / 1'000'000);
  response.mutable_decided_at()->set_nanos(static_cast<int>(now % 1'000'000 * 1'000));
  response.set_request_id(request.request_id());
  v1::LimitStatus* status = response.add_limits();
  status->set_rule("per-user");
  status->set_algorithm(v1::ALGORITHM_TOKEN_BUCKET);
  status->set_limit(1'000'000);
  status->set_remaining(1'000'000 - request.attributes_size());
  status->mutable_reset_after()->set_nanos(1'000);
  status->set_admitted(true);
  status->set_source(v1::SOURCE_STORE);
}

}  // namespace sluice::bench
