// How many connections callers may have, divided between gRPC and HTTP.
#pragma once

#include <cstddef>

namespace sluice {

// Operators at admin.listen.
inline constexpr std::size_t kMaxAdminConnections = 16;

struct ConnectionLimits {
  std::size_t grpc = 0;
  std::size_t http = 0;
};

// Divides `max_connections`, or fewer if a process that may open `max_files` cannot have so many.
// HTTP gets at most a quarter: its clients cannot keep gRPC callers out, nor gRPC callers probes.
ConnectionLimits DivideConnections(std::size_t max_connections, std::size_t max_files);

// The process' limit of open files.
std::size_t MaxOpenFiles();

}  // namespace sluice
