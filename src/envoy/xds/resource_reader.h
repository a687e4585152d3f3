// Reads rules as a control plane sends them: messages whose fields are the keys of a rule file.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "envoy/rules/rule_file_parser.h"

namespace envoy::service::discovery::v3 {
class DiscoveryResponse;
}

namespace sluice::envoy {

// The type of the resources that are rules.
inline constexpr const char* kRulesType =
    "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

// Identifies a set of rules.
struct ResourceSetId {
  std::string version;  // chosen by the control plane; opaque: a lower version may be newer
  // Equal for equal resources in any order; practically always different for other resources.
  std::string fingerprint;
  std::size_t resources = 0;
};

// One whole set of rules.
struct RuleResources {
  ResourceSetId id;
  std::vector<RuleDocument> documents;
};

ResourceSetId IdOf(const ::envoy::service::discovery::v3::DiscoveryResponse& response);

// Appends a text to `mistakes` for every resource that is not a RateLimitConfig. Does not check the
// rules themselves: ParseRules checks them.
std::vector<RuleDocument> ReadResources(
    const ::envoy::service::discovery::v3::DiscoveryResponse& response,
    std::vector<std::string>& mistakes);

}  // namespace sluice::envoy
