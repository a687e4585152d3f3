#include "load/socket.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sluice::load {
namespace {

Error SystemError(int error) { return {ErrorCode::kUnavailable, std::strerror(error)}; }

bool WaitFor(int fd, short events, SteadyTime deadline) {
  pollfd waited = {.fd = fd, .events = events, .revents = 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyNow());
    const int timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    const int ready = poll(&waited, 1, timeout);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// 0, or the system's error.
int ConnectFd(int fd, const sockaddr* address, socklen_t size, SteadyTime deadline) {
  if (connect(fd, address, size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!WaitFor(fd, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t error_size = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
  return error;
}

}  // namespace

void Socket::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool Socket::WaitReadable(SteadyTime deadline) const { return WaitFor(fd_, POLLIN, deadline); }

Result<Socket> Socket::Connect(const Address& address, SteadyTime deadline) {
  constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  if (address.is_unix()) {
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    address.unix_path.copy(name.sun_path, sizeof(name.sun_path) - 1);
    Socket socket(::socket(AF_UNIX, kType, 0));
    if (socket.fd() < 0) return SystemError(errno);
    const auto* generic = reinterpret_cast<const sockaddr*>(&name);
    const int error = ConnectFd(socket.fd(), generic, sizeof(name), deadline);
    if (error != 0) return SystemError(error);
    return socket;
  }
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &list);
  if (failed != 0) return Error{ErrorCode::kUnavailable, gai_strerror(failed)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  int error = 0;
  for (const addrinfo* it = list; it != nullptr; it = it->ai_next) {
    Socket socket(::socket(it->ai_family, kType, 0));
    error = socket.fd() < 0 ? errno : ConnectFd(socket.fd(), it->ai_addr, it->ai_addrlen, deadline);
    if (error != 0) continue;
    const int on = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
  }
  return SystemError(error);
}

}  // namespace sluice::load
