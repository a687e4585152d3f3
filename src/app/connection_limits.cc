#include "app/connection_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

// Files reserved for operators, for probes when all connections are in use, and for Redis, rules,
// metrics.listen and the process itself. If this number is more than half of all files, only half
// of all files are reserved.
constexpr std::size_t kOtherFiles = 160 + kMaxAdminConnections;

}  // namespace

ConnectionLimits DivideConnections(std::size_t max_connections, std::size_t for_http,
                                   std::size_t max_files) {
  const std::size_t left = max_files - std::min(kOtherFiles, max_files / 2);
  const std::size_t all = std::max<std::size_t>(std::min(max_connections, left), 2);
  const std::size_t http = std::clamp<std::size_t>(for_http > 0 ? for_http : all / 4, 1, all - 1);
  return {.grpc = all - http, .http = http};
}

std::size_t RaiseMaxOpenFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return std::numeric_limits<std::size_t>::max();
  const rlimit raised{.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : files.rlim_cur;
}

}  // namespace sluice
