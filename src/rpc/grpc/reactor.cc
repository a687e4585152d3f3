#include "rpc/grpc/reactor.h"

#include <utility>

namespace sluice::rpc::grpc_engine {
namespace {

// context.deadline() overflows for a time that system_clock cannot represent.
SteadyTime DeadlineOf(const Reactor::Context& context, SteadyTime now) {
  constexpr auto kMax = std::chrono::system_clock::time_point::max().time_since_epoch();
  const std::chrono::seconds seconds(context.raw_deadline().tv_sec);
  if (seconds >= std::chrono::floor<std::chrono::seconds>(kMax)) return SteadyTime::max();
  return now + (context.deadline() - Clock::System().Now());
}

::grpc::ByteBuffer BufferOf(std::string_view message) {
  const ::grpc::Slice slice(message.data(), message.size());
  return {&slice, 1};
}

::grpc::Status StatusOf(const Status& status) {
  return {static_cast<::grpc::StatusCode>(status.code), status.message};
}

const Status kCancelled{.code = StatusCode::kCancelled, .message = "the call was cancelled"};

}  // namespace

bool CallCount::Open() {
  if (open_.fetch_add(1, std::memory_order_relaxed) >= max_) {
    Close();
    return false;
  }
  total_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Reactor::Reactor(LoopCalls& calls, std::size_t method, CallCount& count, const Context& context)
    : calls_(calls),
      method_(method),
      count_(count),
      context_(context),
      received_(SteadyNow()),
      deadline_(DeadlineOf(context, received_)) {}

// A stream moves to its io thread at once, a unary call when its message has arrived.
Reactor* Reactor::Start(LoopCalls& calls, std::size_t method, CallCount& count,
                        const Context& context) {
  auto reactor = std::make_shared<Reactor>(calls, method, count, context);
  Reactor* const started = reactor.get();
  started->self_ = std::move(reactor);
  if (calls.methods()[method].stream) {
    started->Post([started] { started->HandleStart(); });
  } else {
    started->Read();
  }
  return started;
}

template <typename Task>
void Reactor::Post(Task task) {
  calls_.loop().Post([self = self_, task = std::move(task)] { task(); });
}

void Reactor::OnReadDone(bool ok) {
  Post([this, ok] { HandleRead(ok); });
}

void Reactor::OnWriteDone(bool ok) {
  Post([this, ok] { HandleWritten(ok); });
}

void Reactor::OnCancel() {
  Post([this] { HandleCancel(); });
}

void Reactor::OnDone() {
  count_.Close();
  self_.reset();
}

void Reactor::HandleStart() {
  if (finished_) return;
  call_ = &calls_.Take(method_);
  call_->Attach(*this);
  call_->OnStart();
  if (calls_.draining() && call_ != nullptr) call_->OnDrain();
}

// A failed read means that the caller has sent its last message or has canceled the call.
void Reactor::HandleRead(bool ok) {
  reading_ = false;
  if (!ok) input_ended_ = true;
  if (finished_ || last_) return;
  if (!ok && context_.IsCancelled()) return HandleCancel();
  const bool unary = !calls_.methods()[method_].stream;
  if (!ok && unary) {
    return FinishNow({.code = StatusCode::kInternal, .message = "the request has no message"});
  }
  if (!ok) return call_->OnHalfClose();
  if (unary) {
    call_ = &calls_.Take(method_);
    call_->Attach(*this);
  }
  ::grpc::ByteBuffer message;
  message.Swap(&message_);
  call_->OnMessage(message);
}

void Reactor::HandleWritten(bool ok) {
  if (finished_) return;
  unsent_bytes_ -= unsent_.front().Length();
  unsent_.pop_front();
  if (!ok) return HandleCancel();
  if (!unsent_.empty()) return WriteNext();
  if (last_) return FinishNow(*last_);
  call_->OnWritable();
}

void Reactor::HandleCancel() {
  if (const auto on_lost = std::exchange(on_lost_, nullptr)) on_lost();
  if (finished_) return;
  if (call_ != nullptr) std::exchange(call_, nullptr)->OnCancel();
  FinishNow(kCancelled);
}

void Reactor::Read() {
  if (reading_ || input_ended_) return;
  reading_ = true;
  StartRead(&message_);
}

void Reactor::Send(std::string_view message) {
  unsent_.push_back(BufferOf(message));
  unsent_bytes_ += message.size();
  if (unsent_.size() == 1) WriteNext();
}

void Reactor::WriteNext() { StartWrite(&unsent_.front()); }

void Reactor::Finish(std::string_view response, std::function<void()> on_lost) {
  call_ = nullptr;
  if (finished_) {
    if (on_lost) on_lost();
    return;
  }
  on_lost_ = std::move(on_lost);
  finished_ = true;
  unsent_.push_back(BufferOf(response));
  StartWriteAndFinish(&unsent_.front(), {}, ::grpc::Status::OK);
}

void Reactor::Finish(const Status& status) {
  call_ = nullptr;
  if (unsent_.empty()) {
    FinishNow(status);
  } else {
    last_ = status;
  }
}

void Reactor::FinishNow(const Status& status) {
  if (std::exchange(finished_, true)) return;
  ::grpc::ServerGenericBidiReactor::Finish(StatusOf(status));
}

}  // namespace sluice::rpc::grpc_engine
