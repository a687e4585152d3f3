#include "service/check_stream_handler.h"

#include <utility>

#include "api/check_message.h"

namespace sluice {
namespace {

// A frame stays well below the 4 MiB that gRPC's clients accept.
constexpr std::size_t kMaxFrameBytes = 1024 * 1024;

// The memory of a larger frame is freed after use.
constexpr std::size_t kMaxKeptFrame = 64 * 1024;

}  // namespace

void CheckStreamHandler::OnStart(const rpc::Call& call) {
  state_ = State::kOpen;
  deadline_ = call.deadline();
  reading_ = true;
  unsent_results_ = 0;
  call_ = &call;
  Identify();
}

// Called again for each frame, because the caller's token may have been removed.
bool CheckStreamHandler::Identify() {
  if (access_ == nullptr) return true;
  const auto caller = access_->Identify(*call_);
  if (!caller) return End(ToStatus(caller.error())), false;
  caller_ = *caller;
  return true;
}

void CheckStreamHandler::OnMessage(std::string_view message) {
  if (state_ != State::kOpen || !Identify()) return;
  if (const auto parsed = ParseChecks(message, checks_); !parsed) {
    return End(ToStatus(parsed.error()));
  }
  // Each item copies its part of the frame. If the items had views instead, the whole frame would
  // be kept until its slowest check ends.
  for (const std::string_view check : checks_) {
    auto item = pool_.Take();
    item->Keep(check);
    waiting_.push_back({.item = std::move(item), .received = loop_.now()});
    unanswered_bytes_ += check.size();
  }
  unanswered_ += checks_.size();
  StartSome();
}

void CheckStreamHandler::OnHalfClose() { End({}); }

void CheckStreamHandler::OnDrain() {
  End({rpc::StatusCode::kUnavailable,
       "this server is shutting down; checks without a result were not decided"});
}

void CheckStreamHandler::OnWritable() {
  unsent_results_ = 0;
  Advance();
}

void CheckStreamHandler::OnCancel() {
  state_ = State::kCanceled;
  status_ = {.code = rpc::StatusCode::kCancelled};
  unanswered_ -= waiting_.size();
  for (Waiting& it : waiting_) {
    unanswered_bytes_ -= it.item->kept().size();
    pool_.PutBack(std::move(it.item));
  }
  waiting_.clear();
  frame_.clear();
  frame_results_ = 0;
  for (auto& item : frame_holders_) {
    item->lease_return()();
    pool_.PutBack(std::move(item));
  }
  frame_holders_.clear();
  Advance();
}

void CheckStreamHandler::End(rpc::Status status) {
  if (state_ != State::kOpen) return;
  state_ = State::kEnding;
  status_ = std::move(status);
  Advance();
}

// A started item owns itself until OnAnswered.
void CheckStreamHandler::StartSome() {
  if (std::exchange(iteration_, loop_.now()) != loop_.now()) started_in_iteration_ = 0;
  ++unanswered_;
  for (; !waiting_.empty() && started_in_iteration_ < kChecksPerIteration;
       ++started_in_iteration_) {
    const BatchContext context{.received = waiting_.front().received,
                               .deadline = deadline_,
                               .access = access_,
                               .caller = caller_};
    BatchedCheck* const item = waiting_.front().item.release();
    waiting_.pop_front();
    item->Start(item->kept(), context, *this);
  }
  --unanswered_;
  if (!waiting_.empty()) StartLater();
  Advance();
}

void CheckStreamHandler::StartLater() {
  if (std::exchange(will_start_, true)) return;
  loop_.Post([this] {
    will_start_ = false;
    if (!waiting_.empty()) StartSome();
  });
}

void CheckStreamHandler::OnAnswered(BatchedCheck& item) {
  --unanswered_;
  unanswered_bytes_ -= item.kept().size();
  std::unique_ptr<BatchedCheck> answered(&item);
  if (state_ == State::kCanceled) {
    if (item.lease_return()) item.lease_return()();
  } else {
    const bool fits = frame_results_ < kMaxChecksPerMessage &&
                      frame_.size() + item.result().size() <= kMaxFrameBytes;
    if (!fits) SendFrame();
    frame_ += item.result();
    ++frame_results_;
    loop_.RequestFlush(*this);
    if (item.lease_return()) frame_holders_.push_back(std::move(answered));
  }
  if (answered) pool_.PutBack(std::move(answered));
  if (state_ != State::kOpen) Advance();
}

void CheckStreamHandler::Flush() {
  SendFrame();
  if (state_ == State::kOpen) Advance();
}

void CheckStreamHandler::SendFrame() {
  if (frame_results_ == 0) return;
  unsent_results_ += std::exchange(frame_results_, 0);
  Send(frame_);
  for (auto& item : frame_holders_) pool_.PutBack(std::move(item));
  frame_holders_.clear();
  frame_.clear();
  if (frame_.capacity() > kMaxKeptFrame) frame_ = std::string();
  if (unsent_bytes() == 0) unsent_results_ = 0;
}

void CheckStreamHandler::Advance() {
  const bool ends = state_ == State::kEnding || state_ == State::kCanceled;
  if (ends && unanswered_ == 0) {
    SendFrame();
    state_ = State::kIdle;
    return Finish(std::exchange(status_, {}));
  }
  const bool read = state_ == State::kOpen && HasRoom();
  if (state_ != State::kCanceled && read != std::exchange(reading_, read)) SetReading(read);
}

bool CheckStreamHandler::HasRoom() const {
  const std::size_t checks = unanswered_ + frame_results_ + unsent_results_;
  const std::size_t bytes = unanswered_bytes_ + frame_.size() + unsent_bytes();
  return checks < kMaxOpenChecks && bytes < kMaxOpenBytes;
}

}  // namespace sluice
