// Settings of Envoy's service that apply to all rules.
#pragma once

#include <string>

namespace sluice::envoy {

struct RlsOptions {
  bool shadow_mode = false;  // hits over the limit are counted, but allowed
  bool quota_mode = false;   // all limits are in quota_mode
  bool count_denied = true;  // a request over one of its limits is counted by all of them
  double near_limit_ratio = 0.8;
  bool metric_names = false;  // metrics also under the names of Envoy's service
  bool dynamic_metadata = false;
  bool response_headers = false;
  std::string limit_header = "RateLimit-Limit";
  std::string remaining_header = "RateLimit-Remaining";
  std::string reset_header = "RateLimit-Reset";

  bool operator==(const RlsOptions&) const = default;
};

}  // namespace sluice::envoy
