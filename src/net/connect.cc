#include "net/connect.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "net/socket.h"

namespace sluice::net {
namespace {

// Waits until one socket is connected. Like every EventHandler, it is destroyed only by
// DisposeLater.
class PendingSocket final : public EventHandler {
 public:
  PendingSocket(Poller& poller, Socket socket, std::function<void(int)> done)
      : poller_(poller), socket_(std::move(socket)), done_(std::move(done)) {
    poller_.Watch(socket_.fd(), EPOLLOUT, *this);
  }

  Socket Take() {
    poller_.Unwatch(socket_.fd(), *this);
    return std::move(socket_);
  }

 private:
  void OnEvents(std::uint32_t) override {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    done_(error);
  }

  Poller& poller_;
  Socket socket_;
  const std::function<void(int)> done_;
};

class Attempt final : public ConnectAttempt {
 public:
  Attempt(Loop& loop, Poller& poller, Resolver& resolver, ConnectRequest request)
      : loop_(loop),
        poller_(poller),
        request_(std::move(request)),
        timer_(loop.timers(), [this] { TryNext("no answer in time"); }) {
    resolver.Resolve(request_.address, loop, [this, alive = std::weak_ptr(alive_)](auto endpoints) {
      if (alive.expired()) return;
      if (!endpoints) return Fail(endpoints.error().message);
      endpoints_ = std::move(*endpoints);
      TryNext("the name has no address");
    });
  }
  ~Attempt() override { DropPending(); }

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
    pending_ = std::make_unique<PendingSocket>(poller_, std::move(*socket), [this](int error) {
      error == 0 ? Succeed() : TryNext(ErrorText(error));
    });
    timer_.Start(loop_.now() + request_.timeout);
  }

  void Succeed() {
    timer_.Cancel();
    Socket socket = pending_->Take();
    loop_.DisposeLater(std::move(pending_));
    socket.SetNoDelay();
    Finish(loop_.Adopt(std::move(socket), request_.stage));
  }

  void Fail(const std::string& cause) { Finish(Error{ErrorCode::kUnavailable, cause}); }

  // `done` may destroy this attempt.
  void Finish(Result<TransportPtr> result) {
    timer_.Cancel();
    const ConnectDone done = std::exchange(request_.done, nullptr);
    done(std::move(result));
  }

  void DropPending() {
    if (!pending_) return;
    pending_->Take();
    loop_.DisposeLater(std::move(pending_));
  }

  Loop& loop_;
  Poller& poller_;
  ConnectRequest request_;
  Timer timer_;
  std::vector<Endpoint> endpoints_;
  std::size_t next_ = 0;
  std::unique_ptr<PendingSocket> pending_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<ConnectAttempt> StartConnecting(Loop& loop, Poller& poller, Resolver& resolver,
                                                ConnectRequest request) {
  return std::make_unique<Attempt>(loop, poller, resolver, std::move(request));
}

}  // namespace sluice::net
