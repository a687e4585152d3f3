#include "net/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/log.h"
#include "base/unix_socket.h"

namespace sluice::net {
namespace {

std::uint16_t& PortOf(Endpoint& endpoint) {
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&endpoint.storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&endpoint.storage);
  return endpoint.storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port;
}

// An errno, or 0.
int Bind(const Socket& socket, const Endpoint& endpoint, const std::string& unix_path,
         std::optional<mode_t> mode) {
  // With this option, a restarted server can listen before its old connections time out. A second
  // listener on the address still fails.
  constexpr int kOn = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
  // The mode is set before bind, so that users whom the mode excludes can never connect. bind
  // applies the umask to the mode, so chmod sets the mode again.
  if (mode) fchmod(socket.fd(), *mode);
  if (bind(socket.fd(), endpoint.get(), endpoint.size) != 0) return errno;
  if (mode && !unix_path.empty() && chmod(unix_path.c_str(), *mode) != 0) return errno;
  return listen(socket.fd(), SOMAXCONN) == 0 ? 0 : errno;
}

// Whether `error` means that this machine does not have the address.
bool IsAbsent(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

Result<std::vector<Socket>> BindAll(const Address& address, const Acceptor::Options& options) {
  if (address.is_unix()) {
    if (auto free = RemoveStaleSocket(address.unix_path); !free) return free.error();
  }
  std::vector<Endpoint> endpoints;
  if (auto numeric = Endpoint::FromNumeric(address)) {
    endpoints.push_back(*numeric);
  } else if (auto found = options.lookup(address)) {
    endpoints = std::move(*found);
  } else {
    return found.error();
  }
  std::vector<Socket> sockets;
  int last_error = 0;
  for (Endpoint& endpoint : endpoints) {
    // Port 0 selects one free port for all addresses.
    if (!sockets.empty()) {
      Endpoint first = sockets.front().Local();
      PortOf(endpoint) = PortOf(first);
    }
    auto socket = Socket::Open(endpoint);
    const int error =
        socket ? Bind(*socket, endpoint, address.unix_path, options.socket_mode) : EAFNOSUPPORT;
    if (error == 0) {
      sockets.push_back(std::move(*socket));
      continue;
    }
    last_error = error;
    if (!IsAbsent(error)) break;
  }
  if (sockets.empty() || (last_error != 0 && !IsAbsent(last_error))) {
    return Error{ErrorCode::kUnavailable, ErrorText(last_error)};
  }
  return sockets;
}

// How long accepting pauses if even the reserve descriptor is missing.
constexpr std::chrono::milliseconds kPause(20);

bool OutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

Socket OpenReserve() { return Socket(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const Address& address, const Options& options) {
  auto sockets = BindAll(address, options);
  if (!sockets) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot listen on {}: {}", address.ToString(),
                                                      sockets.error().message)};
  }
  return std::unique_ptr<Acceptor>(new Acceptor(address, std::move(*sockets)));
}

Acceptor::Acceptor(Address address, std::vector<Socket> sockets)
    : address_(std::move(address)), reserve_(OpenReserve()) {
  Endpoint bound = sockets.front().Local();
  if (!address_.is_unix()) address_.port = ntohs(PortOf(bound));
  for (Socket& socket : sockets) {
    listeners_.push_back(std::make_unique<Listener>(*this, std::move(socket)));
  }
}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Start(EpollLoop& loop, OnConnection on_connection) {
  loop_ = &loop;
  on_connection_ = std::move(on_connection);
  pause_ = std::make_unique<Timer>(loop.timers(), [this] { SetWatching(true); });
  for (const auto& it : listeners_) loop.Watch(it->socket.fd(), EPOLLIN, *it);
}

void Acceptor::Stop() {
  if (!listening()) return;
  if (pause_) pause_->Cancel();
  if (address_.is_unix()) unlink(address_.unix_path.c_str());
  for (const auto& it : listeners_) {
    if (loop_ != nullptr) loop_->Unwatch(it->socket.fd(), *it);
    it->socket.Close();
  }
}

void Acceptor::AcceptFrom(Listener& listener) {
  for (int i = 0; i < kMaxPerIteration && listening(); ++i) {
    const int fd = accept4(listener.socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (fd < 0 && OutOfDescriptors(errno)) return RejectConnections(listener, errno);
    if (fd < 0) continue;  // the connection failed before it was accepted
    if (!reserve_.is_open()) reserve_ = OpenReserve();
    Socket socket(fd);
    if (!address_.is_unix()) socket.SetNoDelay();
    on_connection_(std::move(socket));
  }
}

// A pending connection would wake the loop again and again. So this function frees the reserve
// descriptor, and uses it to accept and close the connection.
void Acceptor::RejectConnections(Listener& listener, int error) {
  reserve_.Close();
  {
    const Socket refused(accept4(listener.socket.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (refused.is_open()) ++turned_away_;
  }
  reserve_ = OpenReserve();
  if (!reserve_.is_open()) {
    SetWatching(false);
    pause_->Start(loop_->now() + kPause);
  }
  if (loop_->now() < next_log_) return;
  next_log_ = loop_->now() + std::chrono::seconds(1);
  spdlog::warn("{}: cannot accept connections: {}; {} refused (raise the limit of open files)",
               address_.ToString(), ErrorText(error), std::exchange(turned_away_, 0));
}

void Acceptor::SetWatching(bool watching) {
  const std::uint32_t events = watching ? std::uint32_t{EPOLLIN} : 0;
  for (const auto& it : listeners_) loop_->ChangeEvents(it->socket.fd(), events, *it);
}

}  // namespace sluice::net
