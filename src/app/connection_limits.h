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

// Divides `max_connections`, or fewer connections if the process can open only `max_files` files.
// HTTP gets `for_http` connections, or a quarter if `for_http` is 0. gRPC gets the rest, at least
// one. So connections of one protocol cannot block callers of the other protocol.
ConnectionLimits DivideConnections(std::size_t max_connections, std::size_t for_http,
                                   std::size_t max_files);

// Raises the process' limit of open files to the allowed maximum. Returns the new limit.
std::size_t RaiseMaxOpenFiles();

}  // namespace sluice
