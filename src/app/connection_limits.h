// The maximum numbers of connections for gRPC and for HTTP.
#pragma once

#include <cstddef>

namespace sluice {

// The maximum number of connections at admin.listen.
inline constexpr std::size_t kMaxAdminConnections = 16;

struct ConnectionLimits {
  std::size_t grpc = 0;
  std::size_t http = 0;
};

// Divides `max_connections`, or fewer if the process may only open `max_files` files. HTTP gets
// `for_http`, or if that is 0, a quarter; gRPC gets the rest, which is at least one. So neither
// can block the other's callers.
ConnectionLimits DivideConnections(std::size_t max_connections, std::size_t for_http,
                                   std::size_t max_files);

// Raises the process' limit of open files to the maximum allowed, and returns it.
std::size_t RaiseMaxOpenFiles();

}  // namespace sluice
