// A serialized envoy.service.ratelimit.v3.RateLimitRequest, read without copies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

// A limit in the request for one descriptor, which replaces the rule's limit.
struct RequestedLimit {
  std::uint32_t requests_per_unit = 0;
  std::uint64_t unit = 0;  // as sent
};

struct RequestedDescriptor {
  std::size_t first_entry = 0;  // in Request::entries
  std::size_t entry_count = 0;
  std::optional<RequestedLimit> limit;
  std::optional<std::uint64_t> hits;  // absent: those of the request
  bool is_negative = false;
};

struct Request {
  std::string_view domain;
  std::vector<Entry> entries;  // of all descriptors
  std::vector<RequestedDescriptor> descriptors;
  std::uint32_t hits = 0;  // of descriptors without hits; 0 counts as 1

  std::span<const Entry> EntriesOf(const RequestedDescriptor& it) const {
    return std::span(entries).subspan(it.first_entry, it.entry_count);
  }
  std::uint64_t HitsOf(const RequestedDescriptor& it) const;
};

// Parses `bytes` into `request`, whose memory is reused and whose views point into `bytes`. Fails
// with INVALID_ARGUMENT on malformed bytes, text that is not UTF-8, unknown units, and hits of 2^63
// and more.
Result<void> ParseRequest(std::string_view bytes, Request& request);

}  // namespace sluice::envoy
