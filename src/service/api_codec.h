// From the limiter's values to those of the API: answers to messages, errors to statuses.
#pragma once

#include <string_view>

#include <grpcpp/support/status.h>
#include <sluice/v1/rate_limiter.pb.h>

#include "base/result.h"
#include "limiter/check_answer.h"

namespace sluice {

// Replaces `response`; memory it already has is used again.
void FillResponse(const CheckAnswer& answer, std::string_view request_id,
                  v1::CheckLimitResponse& response);

grpc::Status ToStatus(const Error& error);

}  // namespace sluice
