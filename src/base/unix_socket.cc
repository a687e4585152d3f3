#include "base/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sluice {
// Connects without blocking. So a process whose backlog is full counts as listening, too.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool refused = connected != 0 && errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

Result<void> RemoveStaleSocket(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return Error{ErrorCode::kUnavailable, "the path exists and is not a socket"};
  }
  if (SomebodyListens(path)) return Error{ErrorCode::kUnavailable, "in use by another process"};
  unlink(path.c_str());
  return {};
}

}  // namespace sluice
