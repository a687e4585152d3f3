// Envoy's RateLimitRequest.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <envoy/service/ratelimit/v3/rls.pb.h>

#include "base/result.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

using Request = ::envoy::service::ratelimit::v3::RateLimitRequest;
using RequestedDescriptor = ::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;

// Sets `request`, whose memory is reused. Fails with INVALID_ARGUMENT on malformed bytes, text that
// is not UTF-8, unknown units, and hits of 2^63 and more.
Result<void> ParseRequest(std::string_view bytes, Request& request);

// Replaces `entries` by views of the descriptor's.
void ReadEntries(const RequestedDescriptor& descriptor, std::vector<Entry>& entries);

std::uint64_t HitsOf(const Request& request, const RequestedDescriptor& descriptor);

}  // namespace sluice::envoy
