// The parts of Envoy's RateLimitResponse besides the statuses of the descriptors.
//
// Thread-safe.
#pragma once

#include <memory>
#include <span>

#include "config/settings.h"
#include "envoy/rls/descriptor_check.h"
#include "envoy/rls/request.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

// The checks in the order of the descriptors; all are decided.
using DecidedChecks = std::span<const std::unique_ptr<DescriptorCheck>>;

// OVER_LIMIT if a check outside quota_mode is over its limit, or if all checks in quota_mode are,
// and there is at least one.
Response::Code OverallCode(DecidedChecks checks);

struct Decided {
  const EnvoySettings& settings;
  const Request& request;
  DecidedChecks checks;
  std::span<const TrieNode* const> passed;  // by all descriptors; for dynamic_metadata
};

// Sets the overall code and, if the settings say so, headers and metadata.
void Complete(const Decided& decided, Response& response);

}  // namespace sluice::envoy
