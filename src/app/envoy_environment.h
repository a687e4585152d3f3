// The environment variables of Envoy's own rate limit service, for `sluiced --envoy-env`: what is
// configured for that service configures this one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

struct EnvoyEnvironment {
  std::vector<std::string> arguments;  // flags of sluiced, as --flag=value
  std::vector<std::string> warnings;   // of variables that mean nothing here
};

// `environment` is a list of NAME=value. The error names each variable that has a value which the
// peer does not know. Thread-safe.
Result<EnvoyEnvironment> ReadEnvoyEnvironment(std::span<const std::string> environment);

}  // namespace sluice
