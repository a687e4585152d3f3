// A socket that never blocks, closed by its destructor.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "base/address.h"
#include "base/result.h"

namespace sluice::net {

// An address as the kernel has it.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  // "192.0.2.1:4711", "[2001:db8::1]:4711" or "unix".
  std::string ToString() const;

  // Of an address that needs no name service: a unix path or a numeric host.
  static Result<Endpoint> FromNumeric(const Address& address);
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { Close(); }

  // A new one for connections to `endpoint` or from it.
  static Result<Socket> Open(const Endpoint& endpoint);

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void Close();

  // What the other end, or our own, is bound to.
  Endpoint Remote() const;
  Endpoint Local() const;

  // Sends small writes at once instead of waiting for more. Does nothing on a unix socket.
  void SetNoDelay() const;

 private:
  int fd_ = -1;
};

// The system's word for an errno, such as "connection refused".
std::string ErrorText(int error);

}  // namespace sluice::net
