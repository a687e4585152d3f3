// The methods that a server has, by path.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/loop.h"
#include "rpc/handler.h"

namespace sluice::rpc {

// Exactly one of the two factories is set. An engine makes as many handlers as calls are open on a
// loop at the same time, and uses them again; it destroys them when the server dies.
struct Method {
  std::string path;  // "/sluice.v1.RateLimiter/CheckLimit"
  std::function<std::unique_ptr<UnaryHandler>(net::Loop&)> unary;
  std::function<std::unique_ptr<StreamHandler>(net::Loop&)> stream;
};

using Methods = std::vector<Method>;

}  // namespace sluice::rpc
