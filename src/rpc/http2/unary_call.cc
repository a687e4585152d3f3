#include "rpc/http2/calls.h"

#include <utility>

namespace sluice::rpc::http2 {

void UnaryCall::Begin(CallStream& stream) {
  if (Attach(stream)) state_ = State::kReceiving;
}

// Any byte after the first message is an error.
void UnaryCall::OnData(std::string_view bytes) {
  constexpr std::size_t kLargeBytes = 1024;  // the limit on calls bounds the memory of smaller ones
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

void UnaryCall::OnRequestEnd() {
  if (state_ == State::kReceiving) {
    return Fail({.code = StatusCode::kInternal,
                 .message = reader_.pending() > 0 ? "the request message is cut short"
                                                  : "the request has no message"});
  }
  if (state_ != State::kReceived) return;
  state_ = State::kServing;
  // A handler takes more memory than a call. It is therefore made when the first request is
  // complete: a peer that does not complete requests gets no handler.
  if (handler_ == nullptr) {
    handler_ = method_.unary(loop_.loop());
    handler_->Attach(*this);
  }
  handler_->Serve(*stream_, request_);
}

// `response` may point into the request or the handler, so it is copied before Release.
void UnaryCall::Finish(std::string_view response, std::function<void()> on_lost) {
  if (std::exchange(state_, State::kFree) == State::kAbandoned) {
    if (on_lost) on_lost();
    return ReleaseAbandoned();
  }
  stream_->Answer(response, std::move(on_lost));
  Release();
}

void UnaryCall::Finish(const Status& status) {
  if (std::exchange(state_, State::kFree) == State::kAbandoned) return ReleaseAbandoned();
  stream_->Finish(status);
  Release();
}

void UnaryCall::Fail(const Status& status) {
  if (state_ == State::kServing) {
    CallStream& stream = *stream_;
    Abandon();
    return stream.Finish(status);
  }
  state_ = State::kFree;
  Release().Finish(status);
}

void UnaryCall::Detach() {
  if (state_ == State::kServing) return Abandon();
  state_ = State::kFree;
  Release();
}

// OnCancel comes last, since the handler may call Finish in it.
void UnaryCall::Abandon() {
  state_ = State::kAbandoned;
  BecomeAbandoned();
  handler_->OnCancel();
}

}  // namespace sluice::rpc::http2
