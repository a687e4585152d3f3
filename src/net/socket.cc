#include "net/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace sluice::net {

std::string ErrorText(int error) { return std::generic_category().message(error); }

std::string IpText(int family, const void* ip) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, ip, text.data(), text.size());
  return text.data();
}

std::string Endpoint::ToString() const {
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return fmt::format("{}:{}", IpText(AF_INET, &v4.sin_addr), ntohs(v4.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    return fmt::format("[{}]:{}", IpText(AF_INET6, &v6.sin6_addr), ntohs(v6.sin6_port));
  }
  return "unix";
}

std::string Endpoint::Network() const {
  constexpr std::size_t kHostBytes = 8;
  if (storage.ss_family == AF_INET) {
    return IpText(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr);
  }
  if (storage.ss_family != AF_INET6) return "unix";
  in6_addr v6 = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    return IpText(AF_INET, &v6.s6_addr[sizeof v6 - sizeof(in_addr)]);
  }
  std::fill_n(&v6.s6_addr[kHostBytes], kHostBytes, std::uint8_t{0});
  return IpText(AF_INET6, &v6) + "/64";
}

Result<Endpoint> Endpoint::FromNumeric(const Address& address) {
  Endpoint endpoint;
  if (address.is_unix()) {
    auto& path = reinterpret_cast<sockaddr_un&>(endpoint.storage);
    if (address.unix_path.size() >= sizeof path.sun_path) {
      return InvalidArgument(fmt::format("{}: a socket's path has at most {} bytes",
                                         address.unix_path, sizeof path.sun_path - 1));
    }
    path.sun_family = AF_UNIX;
    std::copy(address.unix_path.begin(), address.unix_path.end(), path.sun_path);
    endpoint.size = sizeof path;
    return endpoint;
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(endpoint.storage);
  if (inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    endpoint.size = sizeof v4;
    return endpoint;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
  if (inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    endpoint.size = sizeof v6;
    return endpoint;
  }
  return InvalidArgument(fmt::format("{} is not a numeric address", address.host));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Result<Socket> Socket::Open(const Endpoint& endpoint) {
  const int fd =
      ::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error{ErrorCode::kUnavailable, ErrorText(errno)};
  return Socket(fd);
}

void Socket::Close() {
  if (is_open()) ::close(std::exchange(fd_, -1));
}

Endpoint Socket::Ask(int (*get)(int, sockaddr*, socklen_t*)) const {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.storage;
  get(fd_, reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.size);
  return endpoint;
}

void Socket::SetNoDelay() const {
  constexpr int kOn = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
}

int Socket::TakeError() const {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace sluice::net
