// A socket connected to a server, which never blocks.
//
// Not thread-safe. Move-only; closed by its destructor.
#pragma once

#include <utility>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"

namespace sluice::load {

class Socket {
 public:
  // Waits until it is connected, or fails, at the latest at `deadline`: kUnavailable with what the
  // system says.
  static Result<Socket> Connect(const Address& address, SteadyTime deadline);

  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() { Close(); }

  // -1 once it is closed.
  int fd() const { return fd_; }

  void Close();

  // Waits until there is something to read; false if there is not by `deadline`.
  bool WaitReadable(SteadyTime deadline) const;

 private:
  explicit Socket(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace sluice::load
