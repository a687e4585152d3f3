// Writes envoy.service.ratelimit.v3.RateLimitResponse.
//
// Thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "envoy/rls/options.h"
#include "envoy/rls/request.h"
#include "envoy/rls/status.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

struct Response {
  const RlsOptions& options;
  const Request& request;
  std::span<const Status> statuses;
  std::span<const Place* const> passed;  // of all descriptors; for dynamic_metadata
};

// Appends to `out`.
void WriteResponse(const Response& response, std::string& out);

}  // namespace sluice::envoy
