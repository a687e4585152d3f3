// The services that a server's methods belong to.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "rpc/method.h"

namespace sluice {

// Full names, each once, in the order of `methods`: "sluice.v1.RateLimiter".
std::vector<std::string> ServiceNames(const rpc::Methods& methods);

}  // namespace sluice
