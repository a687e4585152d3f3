#include "net/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/unix_socket.h"
#include "net/resolver.h"

namespace sluice::net {
namespace {

Result<Endpoint> EndpointOf(const Address& address) {
  if (auto numeric = Endpoint::FromNumeric(address); numeric || address.is_unix()) return numeric;
  const auto found = Resolver::SystemLookup(address);
  if (!found) return found.error();
  return found->front();
}

Result<Socket> Bind(const Address& address, bool private_socket) {
  if (address.is_unix()) {
    if (auto free = RemoveStaleSocket(address.unix_path); !free) return free.error();
  }
  const auto endpoint = EndpointOf(address);
  if (!endpoint) return endpoint.error();
  auto socket = Socket::Open(*endpoint);
  if (!socket) return socket.error();
  // A restart need not wait for old connections to time out; a second listener still fails.
  constexpr int kOn = 1;
  setsockopt(socket->fd(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
  // Before bind, so that there is no moment at which others may connect.
  if (private_socket) fchmod(socket->fd(), S_IRUSR | S_IWUSR);
  if (bind(socket->fd(), endpoint->get(), endpoint->size) != 0 ||
      listen(socket->fd(), SOMAXCONN) != 0) {
    return Error{ErrorCode::kUnavailable, ErrorText(errno)};
  }
  return socket;
}

// Without a descriptor to turn callers away with, the loop would be woken for them all the time.
constexpr std::chrono::milliseconds kPause(20);

bool OutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

Socket OpenReserve() { return Socket(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::uint16_t PortOf(const Endpoint& endpoint) {
  const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&endpoint.storage);
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&endpoint.storage);
  return ntohs(endpoint.storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const Address& address, bool private_socket) {
  auto socket = Bind(address, private_socket);
  if (!socket) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot listen on {}: {}", address.ToString(),
                                                      socket.error().message)};
  }
  return std::unique_ptr<Acceptor>(new Acceptor(address, std::move(*socket)));
}

Acceptor::Acceptor(Address address, Socket socket)
    : address_(std::move(address)), socket_(std::move(socket)), reserve_(OpenReserve()) {
  if (!address_.is_unix()) address_.port = PortOf(socket_.Local());
}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Start(EpollLoop& loop, OnConnection on_connection) {
  loop_ = &loop;
  on_connection_ = std::move(on_connection);
  pause_ = std::make_unique<Timer>(loop.timers(),
                                   [this] { loop_->ChangeEvents(socket_.fd(), EPOLLIN, *this); });
  loop_->Watch(socket_.fd(), EPOLLIN, *this);
}

void Acceptor::Stop() {
  if (!socket_.is_open()) return;
  if (loop_ != nullptr) loop_->Unwatch(socket_.fd(), *this);
  if (pause_) pause_->Cancel();
  if (address_.is_unix()) unlink(address_.unix_path.c_str());
  socket_.Close();
}

void Acceptor::OnEvents(std::uint32_t) {
  for (int i = 0; i < kMaxPerTurn && socket_.is_open(); ++i) {
    const int fd = accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (fd < 0 && OutOfDescriptors(errno)) return TurnAway(errno);
    if (fd < 0) continue;  // that one connection has failed meanwhile
    if (!reserve_.is_open()) reserve_ = OpenReserve();
    Socket socket(fd);
    if (!address_.is_unix()) socket.SetNoDelay();
    on_connection_(std::move(socket));
  }
}

// Without a free descriptor a connection cannot even be refused, and would wake the loop for ever.
void Acceptor::TurnAway(int error) {
  reserve_.Close();
  {
    const Socket refused(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (refused.is_open()) ++turned_away_;
  }
  reserve_ = OpenReserve();
  if (!reserve_.is_open()) {
    loop_->ChangeEvents(socket_.fd(), 0, *this);
    pause_->Start(loop_->now() + kPause);
  }
  LogTurnedAway(error);
}

void Acceptor::LogTurnedAway(int error) {
  if (loop_->now() < next_log_) return;
  next_log_ = loop_->now() + std::chrono::seconds(1);
  spdlog::warn("{}: cannot accept connections: {}; {} turned away (raise the limit of open files)",
               address_.ToString(), ErrorText(error), std::exchange(turned_away_, 0));
}

}  // namespace sluice::net
