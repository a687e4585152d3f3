#include "tests/net/test_protocol.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

#include "tests/support/require.h"

namespace sluice::net {
namespace {

void LimitBuffer(int fd, int which, int bytes) {
  if (bytes > 0) setsockopt(fd, SOL_SOCKET, which, &bytes, sizeof bytes);
}

std::pair<Socket, Socket> UnixPair() {
  std::array<int, 2> fds{};
  test::Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
  return {Socket(fds[0]), Socket(fds[1])};
}

std::pair<Socket, Socket> TcpPair(int buffer_bytes) {
  const Endpoint any = Endpoint::FromNumeric({.host = "127.0.0.1", .unix_path = {}}).value();
  Socket listening(socket(AF_INET, SOCK_STREAM, 0));
  // Accepted sockets inherit the buffer size. A later change would not affect the TCP window.
  LimitBuffer(listening.fd(), SO_RCVBUF, buffer_bytes);
  test::Require(bind(listening.fd(), any.get(), any.size) == 0, "bind");
  test::Require(listen(listening.fd(), 1) == 0, "listen");
  const Endpoint bound = listening.Local();
  Socket first(socket(AF_INET, SOCK_STREAM, 0));
  LimitBuffer(first.fd(), SO_RCVBUF, buffer_bytes);
  test::Require(connect(first.fd(), bound.get(), bound.size) == 0, "connect");
  Socket second(accept(listening.fd(), nullptr, nullptr));
  return {std::move(first), std::move(second)};
}

}  // namespace

BlockingSocket::BlockingSocket(Socket socket) : socket_(std::move(socket)) {
  fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) & ~O_NONBLOCK);
  const timeval timeout{.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

BlockingSocket BlockingSocket::ConnectTo(const Address& address, const std::string& from) {
  const Endpoint endpoint = Endpoint::FromNumeric(address).value();
  BlockingSocket made(Socket(socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  if (!from.empty()) {
    const Endpoint own = Endpoint::FromNumeric({.host = from}).value();
    test::Require(bind(made.fd(), own.get(), own.size) == 0, "bind");
  }
  test::Require(connect(made.fd(), endpoint.get(), endpoint.size) == 0, "connect");
  return made;
}

bool BlockingSocket::IsSilent() const {
  char next = 0;
  return recv(fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void BlockingSocket::Send(std::string_view bytes) {
  test::Require(SendAll(bytes), "send to the peer");
}

bool BlockingSocket::SendAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string BlockingSocket::Read(std::size_t size) {
  std::string all;
  std::array<char, 64 * 1024> buffer;
  while (all.size() < size) {
    const ssize_t got = recv(fd(), buffer.data(), std::min(buffer.size(), size - all.size()), 0);
    if (got < 0 && errno == EAGAIN) return all.append(kNothing);
    if (got <= 0) break;
    all.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return all;
}

std::string BlockingSocket::ReadSome() {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = recv(fd(), buffer.data(), buffer.size(), 0);
  if (got < 0 && errno == EAGAIN) return std::string(kNothing);
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

void BlockingSocket::Reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  Close();
}

std::pair<Socket, BlockingSocket> ConnectedPair(SocketKind kind, int buffer_bytes) {
  auto [first, second] = kind == SocketKind::kUnix ? UnixPair() : TcpPair(buffer_bytes);
  for (const int fd : {first.fd(), second.fd()}) {
    LimitBuffer(fd, SO_SNDBUF, buffer_bytes);
  }
  fcntl(first.fd(), F_SETFL, fcntl(first.fd(), F_GETFL) | O_NONBLOCK);
  return {std::move(first), BlockingSocket(std::move(second))};
}

}  // namespace sluice::net
