// A Transport over a TCP or unix socket.
#include <cerrno>

#include "net/epoll_loop.h"

namespace sluice::net {
namespace {

constexpr std::uint32_t kReadable = EPOLLIN;
constexpr std::uint32_t kWritable = EPOLLOUT;
constexpr std::uint32_t kBroken = EPOLLERR;
constexpr std::uint32_t kHungUp = EPOLLHUP;

// The maximum bytes per flush, so that a peer that reads quickly cannot starve other connections.
constexpr std::size_t kMaxFlush = 4 * Transport::kFlushBytes;

Peer PeerOf(const Endpoint& remote) {
  return {.address = remote.ToString(), .network = remote.Network(), .identities = {}};
}

class SocketTransport final : public Transport, private EventHandler {
 public:
  // `loop` must outlive the transport.
  SocketTransport(EpollLoop& loop, Socket socket, FlushStage stage)
      : Transport(stage),
        loop_(loop),
        socket_(std::move(socket)),
        peer_(PeerOf(socket_.Remote())) {}

  ~SocketTransport() override { Close(); }

  void Start(Protocol& protocol) override {
    protocol_ = &protocol;
    events_ = reading_ ? kReadable : 0;
    loop_.Watch(socket_.fd(), events_, *this);
    if (finishing_) RequestFlush();
  }

  void RequestFlush() override { loop_.RequestFlush(*this); }

  void SetReading(bool reading) override {
    reading_ = reading;
    if (protocol_ == nullptr) return;
    WatchFor((events_ & kWritable) | (reading && !input_ended_ ? kReadable : 0));
  }

  void FinishSending() override {
    finishing_ = true;
    RequestFlush();
  }

  void Close() override {
    if (!socket_.is_open()) return;
    if (protocol_ != nullptr) loop_.Unwatch(socket_.fd(), *this);
    protocol_ = nullptr;
    socket_.Close();
  }

  std::size_t unsent() const override { return unsent_.size(); }
  bool HasUnreadInput() const override {
    char byte;
    return recv(socket_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
  const Peer& peer() const override { return peer_; }

 private:
  void OnEvents(std::uint32_t events) override {
    // epoll always reports hang-ups and errors. A read reveals the cause.
    if ((events & (kReadable | kHungUp | kBroken)) != 0) Read();
    if ((events & kWritable) != 0 && protocol_ != nullptr) RequestFlush();
  }

  void Flush() override {
    if (protocol_ == nullptr) return;
    if (!unsent_.empty() && !SendRest()) return;
    std::string& buffer = loop_.write_buffer();
    for (std::size_t flushed = 0;; flushed += buffer.size()) {
      buffer.clear();
      protocol_->TakeOutput(buffer);
      if (buffer.empty() || protocol_ == nullptr) break;
      const std::size_t sent =
          flushed < kMaxFlush ? Send(buffer) : 0;  // 0: sent in the next iteration
      if (protocol_ == nullptr) return;
      if (sent < buffer.size()) {
        unsent_.assign(buffer, sent);
        return WatchFor(events_ | kWritable);
      }
    }
    if (protocol_ == nullptr) return;
    if (finishing_) shutdown(socket_.fd(), SHUT_WR);
    if ((events_ & kWritable) == 0) return;
    WatchFor(events_ & ~kWritable);
    protocol_->OnDrained();
  }

  void Read() {
    // If EPOLLIN is not watched, the event is an error or a hang-up.
    if (input_ended_ || !reading_) {
      const int error = socket_.TakeError();
      return Lose(error != 0 ? error : ECONNRESET);
    }
    auto& buffer = loop_.read_buffer();
    const ssize_t got = recv(socket_.fd(), buffer.data(), buffer.size(), 0);
    if (got > 0) return protocol_->Receive({buffer.data(), static_cast<std::size_t>(got)});
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return Lose(errno);
    input_ended_ = true;
    WatchFor(events_ & kWritable);
    protocol_->OnClosed(Protocol::Closure::kEndOfInput, "closed by the peer");
  }

  std::size_t Send(std::string_view bytes) {
    const ssize_t sent = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno != EAGAIN && errno != EINTR) Lose(errno);
    return 0;
  }

  // Sends unsent_. Returns whether the kernel has accepted all of it.
  bool SendRest() {
    const std::size_t sent = Send(unsent_);
    if (protocol_ == nullptr) return false;
    unsent_.erase(0, sent);
    if (!unsent_.empty()) return false;
    std::string().swap(unsent_);
    return true;
  }

  void WatchFor(std::uint32_t events) {
    if (events == events_) return;
    events_ = events;
    loop_.ChangeEvents(socket_.fd(), events, *this);
  }

  void Lose(int error) {
    Protocol& protocol = *protocol_;
    Close();
    protocol.OnClosed(Protocol::Closure::kLost, ErrorText(error));
  }

  EpollLoop& loop_;
  Socket socket_;
  const Peer peer_;
  Protocol* protocol_ = nullptr;
  std::uint32_t events_ = 0;  // the epoll events that the loop watches
  bool reading_ = true;
  bool input_ended_ = false;
  bool finishing_ = false;
  std::string unsent_;  // taken from the protocol, not yet accepted by the kernel
};

}  // namespace

TransportPtr EpollLoop::Adopt(Socket socket, FlushStage stage) {
  return TransportPtr(new SocketTransport(*this, std::move(socket), stage),
                      TransportDeleter{.loop = this});
}

}  // namespace sluice::net
