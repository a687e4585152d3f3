// Reads Envoy's RateLimitRequest, and writes its RateLimitResponse, except for the statuses of the
// descriptors.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "envoy/rls/descriptor_check.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

// Sets `request`, whose memory is reused. Fails with INVALID_ARGUMENT if the bytes are malformed, a
// text is not UTF-8, a unit is unknown, a descriptor has 2^63 hits or more, or the request has more
// than 100 descriptors.
Result<void> ParseRequest(std::string_view bytes, Request& request);

// Replaces `entries` by views of the descriptor's entries.
void ReadEntries(const RequestedDescriptor& descriptor, std::vector<Entry>& entries);

std::uint64_t HitsOf(const Request& request, const RequestedDescriptor& descriptor);

// The checks in the order of the descriptors. All checks are decided.
using DecidedChecks = std::span<const std::unique_ptr<DescriptorCheck>>;

// OVER_LIMIT if a check outside quota_mode is denied, or if there are checks in quota_mode and all
// of them are denied.
Response::Code OverallCode(DecidedChecks checks);

struct Decided {
  const EnvoySettings& settings;
  const Request& request;
  DecidedChecks checks;
  std::span<const TrieNode* const> passed;  // on the paths of all descriptors; for dynamic_metadata
};

// Sets the overall code and, if the settings say so, headers and metadata.
void Complete(const Decided& decided, Response& response);

}  // namespace sluice::envoy
