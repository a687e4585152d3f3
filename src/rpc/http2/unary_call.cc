#include "rpc/http2/call_pool.h"

#include <utility>

namespace sluice::rpc::http2 {
namespace {

// A call with one request and one response. The handler is called when the request is complete.
class UnaryCall final : public ServerCall, public UnaryResponder {
 public:
  UnaryCall(LoopState& loop, ReusePool<ServerCall>& pool, const Method& method)
      : ServerCall(loop, pool), method_(method) {}

  void Begin(CallStream& stream) override {
    if (Attach(stream)) state_ = State::kReceiving;
  }

  // Any byte after the first message is an error.
  void OnData(std::string_view bytes) override {
    // The memory of smaller requests is bounded by the limit on calls.
    constexpr std::size_t kLargeBytes = 1024;
    bool too_many = state_ == State::kReceived && !bytes.empty();
    if (state_ == State::kReceiving) {
      reader_.Append(bytes);
      if (TakeMessage(request_) != Next::kMessage) return;
      state_ = State::kReceived;
      if (request_.size() > kLargeBytes) held_ = request_.size();
      too_many = reader_.pending() > 0;
    }
    if (too_many) {
      Fail({.code = StatusCode::kUnimplemented, .message = "more than one request message"});
    }
  }

  void OnRequestEnd() override {
    if (state_ == State::kReceiving) {
      return Fail({.code = StatusCode::kInternal,
                   .message = reader_.pending() > 0 ? "the request message is cut short"
                                                    : "the request has no message"});
    }
    if (state_ != State::kReceived) return;
    state_ = State::kServing;
    // A handler takes more memory than a call. The handler is therefore created only when the first
    // request is complete: a peer that does not complete requests gets no handler.
    if (handler_ == nullptr) {
      handler_ = method_.unary(loop_.loop());
      handler_->Attach(*this);
    }
    handler_->Serve(*stream_, request_);
  }

  void Detach() override {
    if (state_ == State::kServing) return Abandon();
    state_ = State::kFree;
    Release();
  }

  void Fail(const Status& status) override {
    if (state_ == State::kServing) {
      CallStream& stream = *stream_;
      Abandon();
      return stream.Finish(status);
    }
    state_ = State::kFree;
    Release().Finish(status);
  }

  bool is_stream() const override { return false; }

  // UnaryResponder, for the handler.
  // `response` may point into the request or the handler, so it is copied before Release.
  void Finish(std::string_view response, std::function<void()> on_lost) override {
    if (std::exchange(state_, State::kFree) == State::kAbandoned) {
      if (on_lost) on_lost();
      return ReleaseAbandoned();
    }
    stream_->Answer(response, std::move(on_lost));
    Release();
  }

  void Finish(const Status& status) override {
    if (std::exchange(state_, State::kFree) == State::kAbandoned) return ReleaseAbandoned();
    stream_->Finish(status);
    Release();
  }

 private:
  enum class State : std::uint8_t {
    kFree,
    kReceiving,  // the message is not complete
    kReceived,   // the message is complete, the request has not ended
    kServing,    // the handler is working
    kAbandoned,  // the handler is working, but the call has failed or was canceled
  };

  // OnCancel comes last, since the handler may call Finish in it.
  void Abandon() {
    state_ = State::kAbandoned;
    BecomeAbandoned();
    handler_->OnCancel();
  }

  const Method& method_;
  std::unique_ptr<UnaryHandler> handler_;  // null until the first complete request
  State state_ = State::kFree;
  std::string_view request_;
};

}  // namespace

std::unique_ptr<ServerCall> MakeUnaryCall(LoopState& loop, ReusePool<ServerCall>& pool,
                                          const Method& method) {
  return std::make_unique<UnaryCall>(loop, pool, method);
}

}  // namespace sluice::rpc::http2
