#include "base/admin_address.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/ip_address.h"
#include "base/unix_socket.h"

namespace sluice {
namespace {

constexpr char kServiceDirectory[] = "/run/sluice";

std::string Directory() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != '\0') return std::string(runtime) + "/sluice";
  return geteuid() == 0 ? kServiceDirectory : fmt::format("/tmp/sluice-{}", geteuid());
}

// Several servers can share a port if each has its own address of 127.0.0.0/8.
std::string SocketName(const Address& grpc) {
  const auto ip = IpAddress::Parse(grpc.host);
  if (ip && ip->is_v4() && grpc.is_local() && ip->ToString() != "127.0.0.1") {
    return fmt::format("sluiced-{}-{}.admin", ip->ToString(), grpc.port);
  }
  return fmt::format("sluiced-{}.admin", grpc.port);
}

Error Refused(const std::string& directory, std::string_view why) {
  return {ErrorCode::kPermissionDenied,
          fmt::format("{}, the directory of admin sockets, is not safe: {}", directory, why)};
}

}  // namespace

std::vector<std::string> FindAdminSockets() {
  std::set<std::string> sockets;
  for (const std::string& directory : {Directory(), std::string(kServiceDirectory)}) {
    std::error_code unreadable;
    for (std::filesystem::directory_iterator entry(directory, unreadable), end;
         !unreadable && entry != end; entry.increment(unreadable)) {
      std::error_code gone;
      if (entry->path().extension() == ".admin" && entry->is_socket(gone) &&
          SomebodyListens(entry->path())) {
        sockets.insert(entry->path());
      }
    }
  }
  return {sockets.begin(), sockets.end()};
}

Result<Address> AdminAddressOf(const Address& grpc) {
  return Address::Parse(grpc.is_unix() ? fmt::format("unix:{}.admin", grpc.unix_path)
                                       : fmt::format("unix:{}/{}", Directory(), SocketName(grpc)));
}

Result<void> MakeAdminDirectory(const Address& grpc) {
  if (grpc.is_unix()) return {};
  const std::string directory = Directory();
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot create {} for admin sockets: {}",
                                                      directory, std::strerror(errno))};
  }
  // A service manager may have created the directory with access for other users.
  struct stat found {};
  const bool ours =
      lstat(directory.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid();
  if (ours) chmod(directory.c_str(), 0700);
  return CheckAdminDirectory(grpc);
}

// lstat, not stat: the owner of a symbolic link could redirect it later.
Result<void> CheckAdminDirectory(const Address& grpc) {
  if (grpc.is_unix()) return {};
  const std::string directory = Directory();
  struct stat found {};
  if (lstat(directory.c_str(), &found) != 0) return {};
  if (!S_ISDIR(found.st_mode)) return Refused(directory, "it is not a directory");
  if (found.st_uid != geteuid()) return Refused(directory, "it belongs to another user");
  if ((found.st_mode & 077) != 0) return Refused(directory, "it is open to other users");
  return {};
}

}  // namespace sluice
