// Received messages with checks: a sluice.v1.CheckLimitRequest, and the check that it asks for; and
// a sluice.v1.CheckLimitsRequest.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/internal/check_limit_request.pb.h>

#include "base/result.h"
#include "limiter/check_request.h"

namespace sluice {

inline constexpr std::size_t kMaxRequestIdBytes = 255;
inline constexpr std::size_t kMaxChecksPerMessage = 1000;

// A duration of a request, of 0 to 365 days, rounded down to microseconds. The error names `field`.
Result<void> InterpretDuration(std::string_view field, const google::protobuf::Duration& from,
                               std::optional<Duration>& to);

// Sets `checks` to views of the serialized CheckLimitRequests in `bytes`, a CheckLimitsRequest,
// without parsing them. Fails with INVALID_ARGUMENT on malformed bytes, and unless there are 1 to
// kMaxChecksPerMessage.
Result<void> ParseChecks(std::string_view bytes, std::vector<std::string_view>& checks);

// Not thread-safe. Reused: parsing does not allocate if an earlier message was similar.
class CheckMessage {
 public:
  // Sets `request` from `bytes`; its views point into this message until Parse or Release. A cost
  // of 0 without amounts becomes a PEEK; a max_wait or max_delay is rounded down to microseconds.
  //
  // Fails with INVALID_ARGUMENT, naming the field, on malformed bytes and on values that a
  // CheckRequest cannot hold. Does not check the limits of CheckRequest::Validate.
  Result<void> Parse(std::string_view bytes, CheckRequest& request);

  // Identifies the request to its caller, even if Parse has refused it. Empty if there is no valid
  // id.
  const std::string& request_id() const { return message_.request_id(); }

  // Frees the memory of a large message.
  void Release();

 private:
  void RecoverRequestId(std::string_view bytes);

  internal::CheckLimitRequest message_;
  std::size_t size_ = 0;  // of the bytes last parsed
};

}  // namespace sluice
