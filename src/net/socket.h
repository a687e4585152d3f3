// A non-blocking socket, closed by its destructor.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "base/address.h"
#include "base/result.h"

namespace sluice::net {

// A socket address in the kernel's format.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  // "192.0.2.1:4711", "[2001:db8::1]:4711" or "unix".
  std::string ToString() const;

  // The network, which counts as one peer in limits: "192.0.2.1", "2001:db8::/64" or "unix". An
  // IPv6 address counts as its /64, because its owner can use the whole /64.
  std::string Network() const;

  // Converts a unix path or a numeric host. Fails for a host name.
  static Result<Endpoint> FromNumeric(const Address& address);
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { Close(); }

  // Creates a stream socket of the address family of `endpoint`. It is not bound and not connected.
  static Result<Socket> Open(const Endpoint& endpoint);

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void Close();

  // Remote: the peer's address. Local: the address of this end.
  Endpoint Remote() const { return Ask(getpeername); }
  Endpoint Local() const { return Ask(getsockname); }

  // Sets TCP_NODELAY: small writes are sent at once. Does nothing on a unix socket.
  void SetNoDelay() const;

  // The errno of the last asynchronous error, or 0. Clears it.
  int TakeError() const;

 private:
  Endpoint Ask(int (*get)(int, sockaddr*, socklen_t*)) const;

  int fd_ = -1;
};

// "192.0.2.1" or "2001:db8::1", from an address of the family AF_INET or AF_INET6.
std::string IpText(int family, const void* ip);

// The system's text for an errno, such as "Connection refused".
std::string ErrorText(int error);

}  // namespace sluice::net
