// Parses received messages with checks: sluice.v1.CheckLimitRequest (one check) and
// sluice.v1.CheckLimitsRequest (many checks).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/duration.pb.h>

#include "base/result.h"
#include "limiter/check_request.h"

namespace sluice {

inline constexpr std::size_t kMaxRequestIdBytes = 255;
inline constexpr std::size_t kMaxChecksPerMessage = 1000;

// Sets `to` to `from`, a duration in a request, rounded down to microseconds. Fails unless the
// duration is 0 to 365 days; the error names `field`.
Result<void> InterpretDuration(std::string_view field, const google::protobuf::Duration& from,
                               std::optional<Duration>& to);

// `bytes` is a CheckLimitsRequest. Sets `checks` to views of its serialized CheckLimitRequests, but
// does not parse these. Fails with INVALID_ARGUMENT if the bytes are malformed, if there are no
// checks, or if there are more than kMaxChecksPerMessage.
Result<void> ParseChecks(std::string_view bytes, std::vector<std::string_view>& checks);

// Not thread-safe. Reused: parsing does not allocate if an earlier message was similar.
class CheckMessage {
 public:
  // Sets `request` from `bytes`. The views in `request` point into this message; they are valid
  // until the next Parse or Release. If the cost and all amounts are 0, the mode becomes kPeek. A
  // max_wait or max_delay is rounded down to microseconds.
  //
  // Fails with INVALID_ARGUMENT if the bytes are malformed, if there are too many attributes or
  // amounts, if the request_id is too long, if the mode, a time or a duration is out of range, or
  // if two fields exclude each other. The error names the field, if it is known.
  // CheckRequest::Validate checks the other bounds.
  Result<void> Parse(std::string_view bytes, CheckRequest& request);

  // Identifies the request to its caller, even if Parse has refused the request. Empty if there is
  // no valid id.
  std::string_view request_id() const { return request_id_; }

  // Frees the memory of a large message.
  void Release();

 private:
  void RecoverRequestId(std::string_view bytes);

  std::string bytes_;  // a copy, to which the views point
  std::string_view request_id_;
};

}  // namespace sluice
