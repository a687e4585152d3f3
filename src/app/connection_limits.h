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

// Divides `max_connections`, or fewer if the process may only open `max_files` files. HTTP gets at
// most a quarter. So HTTP clients cannot block gRPC callers, and gRPC callers cannot block probes.
ConnectionLimits DivideConnections(std::size_t max_connections, std::size_t max_files);

// The process' limit of open files.
std::size_t MaxOpenFiles();

}  // namespace sluice
