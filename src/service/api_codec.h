// Between the limiter's values and those of the API: answers to messages, errors to statuses.
#pragma once

#include <string_view>

#include <grpc/support/time.h>
#include <grpcpp/support/status.h>
#include <sluice/v1/rate_limiter.pb.h>

#include "base/clock.h"
#include "base/result.h"
#include "limiter/check_answer.h"

namespace sluice {

// Replaces `response`; memory it already has is used again.
void FillResponse(const CheckAnswer& answer, std::string_view request_id,
                  v1::CheckLimitResponse& response);

// Replaces `status`.
void FillStatus(const LimitAnswer& answer, v1::LimitStatus& status);

// Replaces `error`.
void FillError(const Error& from, std::string_view request_id, v1::CheckLimitError& error);

void FillTime(Time from, google::protobuf::Timestamp& to);
void FillDuration(Duration from, google::protobuf::Duration& to);

grpc::Status ToStatus(const Error& error);

// The deadline of a call; SteadyTime::max() if it has none.
SteadyTime ToSteadyTime(gpr_timespec deadline);

}  // namespace sluice
