#include "console/server_watch.h"

#include <utility>

#include "client/http2_connection.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kEvery(1);

// The pause after the server has refused the credentials. Servers slow down callers that often send
// wrong credentials.
constexpr std::chrono::seconds kRefusedPause(10);

// If a server sends no frame for this long, it hangs, or its machine is gone.
constexpr std::chrono::seconds kSilence(5);

bool IsRefusal(const Error& error) {
  return error.code == ErrorCode::kUnauthenticated || error.code == ErrorCode::kPermissionDenied;
}

}  // namespace

class ServerWatch::Call final : public LoneCall {
 public:
  Call(ServerWatch& owner, net::Loop& loop)
      : LoneCall(loop, owner.target_, owner.tls_, kSilence, "/sluice.v1.Admin/Watch",
                 v1::WatchRequest().SerializeAsString()),
        owner_(&owner) {}

  // Destroys `call` at the end of the iteration. Until then, the call does not use its owner.
  static void Dispose(std::unique_ptr<Call> call, net::Loop& loop) {
    call->owner_ = nullptr;
    loop.DisposeLater(std::move(call));
  }

 private:
  void OnMessage(std::string_view message) override {
    v1::WatchFrame frame;
    if (owner_ == nullptr) return;
    if (frame.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      owner_->OnFrame(std::move(frame));
    }
  }

  void OnStatus(const GrpcStatus& status) override {
    if (owner_ == nullptr) return;
    if (status.code != GrpcStatus::kOk) return owner_->OnLoss(ToError(status));
    owner_->OnLoss({ErrorCode::kUnavailable, "the server has ended the call"});
  }

  ServerWatch* owner_;  // null: disposed of
};

ServerWatch::ServerWatch(net::IoThreads& io, const std::string& name, const Target& target,
                         const net::TlsClientContext* tls)
    : io_(io), target_(target), tls_(tls), state_{.name = name} {
  io_.RunOn(0, [this](net::EpollLoop& loop) {
    timer_ = std::make_unique<net::Timer>(loop.timers(), [this] { OnTime(); });
    Connect();
  });
}

ServerWatch::~ServerWatch() {
  io_.RunOn(0, [this](net::EpollLoop& loop) {
    timer_.reset();
    Call::Dispose(std::move(call_), loop);
  });
}

void ServerWatch::Connect() {
  net::EpollLoop& loop = io_.loop(0);
  if (call_) Call::Dispose(std::move(call_), loop);
  lost_ = false;
  silent_since_ = loop.now();
  call_ = std::make_unique<Call>(*this, loop);
  timer_->Start(loop.now() + kEvery);
}

void ServerWatch::OnTime() {
  if (lost_) return Connect();
  const SteadyTime now = io_.loop(0).now();
  timer_->Start(now + kEvery);
  if (now - silent_since_ >= kSilence) {
    OnLoss({ErrorCode::kDeadlineExceeded, "the server sends nothing"});
  }
}

void ServerWatch::OnFrame(v1::WatchFrame frame) {
  if (lost_) return;
  silent_since_ = io_.loop(0).now();
  const MutexLock lock(mutex_);
  state_.last = std::make_shared<const v1::WatchFrame>(std::move(frame));
  ++state_.frames;
  state_.error.reset();
  state_.connected = true;
}

// The call may still be on the stack, so OnTime replaces it later.
void ServerWatch::OnLoss(Error error) {
  if (std::exchange(lost_, true)) return;
  timer_->Start(io_.loop(0).now() + (IsRefusal(error) ? kRefusedPause : kEvery));
  const MutexLock lock(mutex_);
  state_.last.reset();
  state_.error = std::move(error);
  const bool answered = call_ && call_->connected();
  state_.tried = answered ? "" : target_.address.ToString();
  state_.connected |= answered;
}

ServerWatch::State ServerWatch::Now() const {
  const MutexLock lock(mutex_);
  return state_;
}

}  // namespace sluice
