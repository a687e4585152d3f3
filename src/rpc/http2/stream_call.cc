#include "rpc/http2/calls.h"

#include <utility>

namespace sluice::rpc::http2 {

StreamCall::StreamCall(LoopState& loop, ReusePool<ServerCall>& pool, const Method& method)
    : ServerCall(loop, pool),
      handler_(method.stream(loop.loop())),
      defer_timer_(loop.loop().timers(), [this] {
        if (served()) stream_->RequestResume();
      }) {
  handler_->Attach(*this);
}

void StreamCall::Begin(CallStream& stream) {
  if (!Attach(stream)) return;
  state_ = State::kOpen;
  handler_->OnStart(stream);
}

void StreamCall::OnData(std::string_view bytes) {
  if (!served()) return;
  reader_.Append(bytes);
  Deliver();
}

void StreamCall::OnRequestEnd() {
  if (state_ != State::kOpen) return;
  state_ = State::kEnded;
  Deliver();
}

void StreamCall::OnResumed() {
  if (served() && !paused_) Deliver();
}

void StreamCall::OnWritable() {
  if (served() && stream_->unsent_bytes() == 0) handler_->OnWritable();
}

void StreamCall::OnDrain() {
  if (served()) handler_->OnDrain();
}

// A message is in use until OnMessage returns, so a call that ends within it is released here.
void StreamCall::Deliver() {
  if (std::exchange(delivering_, true)) return;
  while (served() && !paused_ && !Defer() && DeliverOne()) {
  }
  delivering_ = false;
  if (state_ == State::kFree && stream_ != nullptr) Release();
}

// Whether the next message has to wait until other connections have run.
bool StreamCall::Defer() {
  deferred_ = reader_.next_is_compressed() && !loop_.MayInflate();
  if (deferred_) defer_timer_.Start(loop_.loop().now());
  return deferred_;
}

bool StreamCall::DeliverOne() {
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

void StreamCall::Send(std::string_view message) {
  if (served()) stream_->Send(message);
}

std::size_t StreamCall::unsent_bytes() const { return served() ? stream_->unsent_bytes() : 0; }

void StreamCall::SetReading(bool reading) {
  if (!served() || paused_ == !reading) return;
  paused_ = !reading;
  if (reading && !delivering_) stream_->RequestResume();
}

void StreamCall::Finish(const Status& status) {
  if (std::exchange(state_, State::kFree) == State::kAbandoned) return ReleaseAbandoned();
  stream_->Finish(status);
  if (!delivering_) Release();
}

void StreamCall::Fail(const Status& status) {
  CallStream& stream = *stream_;
  Abandon();
  stream.Fail(status);
}

void StreamCall::Detach() { Abandon(); }

// OnCancel comes last, since the handler may call Finish in it.
void StreamCall::Abandon() {
  state_ = State::kAbandoned;
  BecomeAbandoned();
  handler_->OnCancel();
}

}  // namespace sluice::rpc::http2
