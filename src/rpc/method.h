// The RPC methods of a server.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/loop.h"
#include "rpc/handler.h"

namespace sluice::rpc {

// Exactly one of the factories is set. A server creates a handler for each concurrent call on a
// loop, and may reuse the handler for later calls. The server may destroy a handler that serves no
// call. When the server is destroyed, it destroys the handlers that are left.
struct Method {
  std::string path;  // "/sluice.v1.RateLimiter/CheckLimit"
  std::function<std::unique_ptr<UnaryHandler>(net::Loop&)> unary;
  std::function<std::unique_ptr<StreamHandler>(net::Loop&)> stream;
  // Whether calls of this method are about the server itself, like health checks. Such calls do not
  // count toward the server's max_calls. A connection may have a few of them open even when other
  // calls are refused.
  bool is_probe = false;
};

using Methods = std::vector<Method>;

// The full names of the services, such as "sluice.v1.RateLimiter": each once, in the order of
// `methods`.
inline std::vector<std::string> ServiceNames(const Methods& methods) {
  std::vector<std::string> names;
  for (const Method& method : methods) {
    std::string name = method.path.substr(1, method.path.rfind('/') - 1);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace sluice::rpc
