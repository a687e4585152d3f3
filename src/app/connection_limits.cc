#include "app/connection_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr std::size_t kMaxHttp = 1'024;

// Files reserved for operators, Redis, rules and the process itself. If this is more than half of
// all files, half of them are reserved.
constexpr std::size_t kOtherFiles = 96 + kMaxAdminConnections;

}  // namespace

ConnectionLimits DivideConnections(std::size_t max_connections, std::size_t max_files) {
  const std::size_t left = max_files - std::min(kOtherFiles, max_files / 2);
  const std::size_t all = std::max<std::size_t>(std::min(max_connections, left), 2);
  const std::size_t http = std::clamp<std::size_t>(all / 4, 1, kMaxHttp);
  return {.grpc = all - http, .http = http};
}

std::size_t MaxOpenFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return std::numeric_limits<std::size_t>::max();
  return files.rlim_cur;
}

}  // namespace sluice
