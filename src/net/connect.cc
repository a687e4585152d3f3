// Connecting: resolves the name, then tries its addresses in order.
#include "net/epoll_loop.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "net/resolver.h"
#include "net/socket.h"

namespace sluice::net {
namespace {

// Waits until one socket is connected. Like every EventHandler, it is destroyed only by
// DisposeLater.
class PendingSocket final : public EventHandler {
 public:
  PendingSocket(EpollLoop& loop, Socket socket, std::function<void(int)> done)
      : loop_(loop), socket_(std::move(socket)), done_(std::move(done)) {
    loop_.Watch(socket_.fd(), EPOLLOUT, *this);
  }

  Socket Take() {
    loop_.Unwatch(socket_.fd(), *this);
    return std::move(socket_);
  }

 private:
  void OnEvents(std::uint32_t) override { done_(socket_.TakeError()); }

  EpollLoop& loop_;
  Socket socket_;
  const std::function<void(int)> done_;
};

class Attempt final : public ConnectAttempt {
 public:
  // `timeout`: for each address of the name.
  Attempt(EpollLoop& loop, Duration timeout, FlushStage stage, ConnectDone done)
      : loop_(loop),
        timeout_(timeout),
        stage_(stage),
        done_(std::move(done)),
        timer_(loop.timers(), [this] { TryNext("no answer in time"); }) {}
  ~Attempt() override { DropPending(); }

  void Start(Resolver& resolver, const Address& address) {
    resolver.Resolve(address, loop_, [this, alive = std::weak_ptr(alive_)](auto endpoints) {
      if (alive.expired()) return;
      if (!endpoints) return Fail(endpoints.error().message);
      endpoints_ = std::move(*endpoints);
      TryNext("the name has no address");
    });
  }

 private:
  // `failure`: why the previous address failed.
  void TryNext(const std::string& failure) {
    DropPending();
    if (next_ == endpoints_.size()) return Fail(failure);
    const Endpoint& endpoint = endpoints_[next_++];
    auto socket = Socket::Open(endpoint);
    if (!socket) return TryNext(socket.error().message);
    const int failed = ::connect(socket->fd(), endpoint.get(), endpoint.size);
    if (failed != 0 && errno != EINPROGRESS) return TryNext(ErrorText(errno));
    pending_ = std::make_unique<PendingSocket>(loop_, std::move(*socket), [this](int error) {
      error == 0 ? Succeed() : TryNext(ErrorText(error));
    });
    timer_.Start(loop_.now() + timeout_);
  }

  void Succeed() {
    timer_.Cancel();
    Socket socket = pending_->Take();
    loop_.DisposeLater(std::move(pending_));
    socket.SetNoDelay();
    Finish(loop_.Adopt(std::move(socket), stage_));
  }

  void Fail(const std::string& cause) { Finish(Error{ErrorCode::kUnavailable, cause}); }

  // `done` may destroy this attempt.
  void Finish(Result<TransportPtr> result) {
    timer_.Cancel();
    const ConnectDone done = std::exchange(done_, nullptr);
    done(std::move(result));
  }

  void DropPending() {
    if (!pending_) return;
    pending_->Take();
    loop_.DisposeLater(std::move(pending_));
  }

  EpollLoop& loop_;
  const Duration timeout_;
  const FlushStage stage_;
  ConnectDone done_;
  Timer timer_;
  std::vector<Endpoint> endpoints_;
  std::size_t next_ = 0;
  std::unique_ptr<PendingSocket> pending_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<ConnectAttempt> EpollLoop::Connect(const Address& address, Duration connect_timeout,
                                                   FlushStage stage, ConnectDone done) {
  auto attempt = std::make_unique<Attempt>(*this, connect_timeout, stage, std::move(done));
  attempt->Start(resolver_, address);
  return attempt;
}

}  // namespace sluice::net
