#include "http/unary_calls.h"

#include <utility>

namespace sluice {

class UnaryCalls::OneCall final : public rpc::Call,
                                  public rpc::UnaryResponder,
                                  public net::Disposable {
 public:
  OneCall(net::Loop& loop, CallsOfLoop& calls, const rpc::Method& method,
          const HttpRequest& request)
      : loop_(loop),
        calls_(calls),
        handler_(method.unary(loop)),
        received_(SteadyNow()),
        headers_(request.headers),
        peer_(request.peer) {}

  void Start(std::string message, Render render, HttpResponder responder) {
    message_ = std::move(message);
    render_ = std::move(render);
    responder.OnGone([this] {
      gone_ = true;
      handler_->OnCancel();
    });
    responder_ = std::make_unique<HttpResponder>(std::move(responder));
    handler_->Attach(*this);
    handler_->Serve(*this, message_);
  }

  // rpc::Call.
  SteadyTime deadline() const override { return SteadyTime::max(); }
  SteadyTime received() const override { return received_; }
  std::optional<std::string_view> Metadata(std::string_view name) const override {
    return OnlyHeader(headers_, name);
  }
  const net::Peer& peer() const override { return peer_; }

  // rpc::UnaryResponder.
  void Finish(std::string_view response, std::function<void()> on_lost) override {
    if (gone_ && on_lost) on_lost();
    Answer({}, response, std::move(on_lost));
  }
  void Finish(const rpc::Status& status) override { Answer(status, {}, nullptr); }

 private:
  // The handler may be on the call stack, so it is destroyed at the end of the iteration.
  void Answer(const rpc::Status& status, std::string_view response, std::function<void()> on_lost) {
    responder_->OnGone(std::move(on_lost));
    render_(status, response, *responder_);
    auto node = calls_.extract(this);
    loop_.DisposeLater(std::move(node.mapped()));
  }

  net::Loop& loop_;
  CallsOfLoop& calls_;
  const std::unique_ptr<rpc::UnaryHandler> handler_;
  const SteadyTime received_;
  const HttpHeaders headers_;
  const net::Peer peer_;
  std::string message_;
  Render render_;
  std::unique_ptr<HttpResponder> responder_;
  bool gone_ = false;  // whether the client has disconnected
};

UnaryCalls::UnaryCalls(net::IoThreads& threads, rpc::Method method)
    : threads_(threads), method_(std::move(method)), calls_(threads.size()) {}

// Handlers may own timers of their loops, so they are destroyed on the loops' threads.
UnaryCalls::~UnaryCalls() {
  threads_.RunOnEach([this](net::EpollLoop& loop) { calls_[loop.index()].clear(); });
}

void UnaryCalls::Start(const HttpRequest& request, std::string message, Render render,
                       HttpResponder responder) {
  net::Loop& loop = *net::Loop::Current();
  CallsOfLoop& calls = calls_[loop.index()];
  auto call = std::make_unique<OneCall>(loop, calls, method_, request);
  OneCall& started = *call;
  calls.emplace(&started, std::move(call));
  started.Start(std::move(message), std::move(render), std::move(responder));
}

}  // namespace sluice
