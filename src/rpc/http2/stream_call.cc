#include "rpc/http2/call_pool.h"

#include <utility>

namespace sluice::rpc::http2 {
namespace {

// A call with any number of messages in both directions.
class StreamCall final : public ServerCall, public StreamResponder {
 public:
  StreamCall(LoopState& loop, ReusePool<ServerCall>& pool, const Method& method)
      : ServerCall(loop, pool),
        handler_(method.stream(loop.loop())),
        defer_timer_(loop.loop().timers(), [this] {
          if (served()) stream_->RequestResume();
        }) {
    handler_->Attach(*this);
  }

  void Begin(CallStream& stream) override {
    if (!Attach(stream)) return;
    state_ = State::kOpen;
    handler_->OnStart(stream);
  }

  void OnData(std::string_view bytes) override {
    if (!served()) return;
    reader_.Append(bytes);
    Deliver();
  }

  void OnRequestEnd() override {
    if (state_ != State::kOpen) return;
    state_ = State::kEnded;
    Deliver();
  }

  void Detach() override { Abandon(); }

  void OnDrain() override {
    if (served()) handler_->OnDrain();
  }

  void OnWritable() override {
    if (served() && stream_->unsent_bytes() == 0) handler_->OnWritable();
  }

  void OnResumed() override {
    if (served() && !paused_) Deliver();
  }

  void Fail(const Status& status) override {
    CallStream& stream = *stream_;
    Abandon();
    stream.Fail(status);
  }

  bool is_stream() const override { return true; }

  // StreamResponder, for the handler.
  void Finish(const Status& status) override {
    if (std::exchange(state_, State::kFree) == State::kAbandoned) return ReleaseAbandoned();
    stream_->Finish(status);
    if (!delivering_) Release();
  }

  void Send(std::string_view message) override {
    if (served()) stream_->Send(message);
  }

  std::size_t unsent_bytes() const override { return served() ? stream_->unsent_bytes() : 0; }

  void SetReading(bool reading) override {
    if (!served() || paused_ == !reading) return;
    paused_ = !reading;
    if (reading && !delivering_) stream_->RequestResume();
  }

 private:
  enum class State : std::uint8_t {
    kFree,
    kOpen,        // messages can arrive
    kEnded,       // the request has ended; OnHalfClose is still to be called
    kHalfClosed,  // OnHalfClose was called
    kAbandoned,   // the call has failed or was canceled; the handler has not finished
  };

  // Delivers messages, and calls OnHalfClose at the end of the request.
  // A message is in use until OnMessage returns. If the call ends in OnMessage, the call is
  // therefore released only here, after OnMessage has returned.
  void Deliver() {
    if (std::exchange(delivering_, true)) return;
    while (served() && !paused_ && !Defer() && DeliverOne()) {
    }
    delivering_ = false;
    if (state_ == State::kFree && stream_ != nullptr) Release();
  }

  bool DeliverOne() {
    std::string_view message;
    switch (TakeMessage(message)) {
      case Next::kMessage:
        handler_->OnMessage(message);
        return true;
      case Next::kPartial:
        if (state_ == State::kEnded) {
          Fail({.code = StatusCode::kInternal, .message = "the last message is cut short"});
        }
        return false;
      case Next::kNothing:
        if (state_ != State::kEnded) return false;
        state_ = State::kHalfClosed;
        handler_->OnHalfClose();
        return false;
      default:  // the call has failed
        return false;
    }
  }

  // If the next message must wait until other connections have run, starts the timer and returns
  // true.
  bool Defer() {
    deferred_ = reader_.next_is_compressed() && !loop_.MayInflate();
    if (deferred_) defer_timer_.Start(loop_.loop().now());
    return deferred_;
  }

  bool served() const { return state_ != State::kFree && state_ != State::kAbandoned; }

  // OnCancel comes last, since the handler may call Finish in it.
  void Abandon() {
    state_ = State::kAbandoned;
    BecomeAbandoned();
    handler_->OnCancel();
  }

  const std::unique_ptr<StreamHandler> handler_;
  net::Timer defer_timer_;
  State state_ = State::kFree;
  bool delivering_ = false;  // Deliver is running; it releases the call if the call ends
};

}  // namespace

std::unique_ptr<ServerCall> MakeStreamCall(LoopState& loop, ReusePool<ServerCall>& pool,
                                           const Method& method) {
  return std::make_unique<StreamCall>(loop, pool, method);
}

}  // namespace sluice::rpc::http2
