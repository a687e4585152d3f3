// Translates the environment variables of Envoy's rate limit service to flags of sluiced, for
// `sluiced --envoy-env`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

struct EnvoyEnvironment {
  std::vector<std::string> arguments;  // flags of sluiced, as --flag=value
  std::vector<std::string> warnings;   // for variables that have no effect in sluiced
};

// `environment` is a list of NAME=value. The error names each variable whose value Envoy's service
// would not accept, and each variable that protects the service and has no equivalent. Thread-safe.
Result<EnvoyEnvironment> ReadEnvoyEnvironment(std::span<const std::string> environment);

}  // namespace sluice
