#include "rpc/http2/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "rpc/http2/message_reader.h"

namespace sluice::rpc::http2 {
namespace {

constexpr std::size_t kKeptOutput = 16 * 1024;

Status TooMuchMemory() {
  return {.code = StatusCode::kResourceExhausted, .message = "too many unfinished messages"};
}

}  // namespace

Stream::Stream() {
  reservation_.on_granted = [this] { UpdateFlow(); };
}

void Stream::Open(StreamContext& context, std::int32_t id) {
  context_ = &context;
  id_ = id;
  input_ = Input::kHeaders;
  output_state_ = Output::kNone;
  received_ = context.now();
  deadline_ = SteadyTime::max();
  context.incomplete_requests.Add(incomplete_, received_);
}

void Stream::Close() {
  if (call_ != nullptr) call_->Detach();
  head_.Clear();
  NoteUnfinished(0);
  context_->memory.Release(reservation_);
  incomplete_.unlink();
  unsent_.unlink();
  resumed_ = writable_ = false;
  if (std::exchange(waits_for_callbacks_, false)) std::erase(context_->with_callbacks, this);
  unconsumed_ = 0;
  DropUnsent();
  if (output_.capacity() > kKeptOutput) output_.shrink_to_fit();
  if (on_lost_) CompleteResponse();
}

void Stream::OnHeader(std::string_view name, std::string_view value) {
  head_.Add(name, value, context_->loop.options().metadata);
}

// An unsent answer is lost. A sent answer can still be lost: the caller may have reset the stream
// before it received the answer.
void Stream::CompleteResponse() {
  auto on_lost = std::exchange(on_lost_, nullptr);
  if (output_state_ != Output::kEnded) return on_lost();
  context_->sent_answers.Add(id_, context_->now(), std::move(on_lost));
}

void Stream::OnHeadersEnd(CallPool* method) {
  input_ = Input::kBody;
  if (head_.too_large()) {
    return Finish({.code = StatusCode::kResourceExhausted,
                   .message = "received metadata size exceeds limit"});
  }
  if (!head_.is_post()) return RejectHttp("405");
  if (!head_.is_grpc()) return RejectHttp("415");
  if (head_.encoding() == Encoding::kUnknown) {
    return Finish(
        {.code = StatusCode::kUnimplemented,
         .message = fmt::format("grpc-encoding {} is not supported", head_.encoding_name())});
  }
  if (!CountRequest(0)) return Finish(TooMuchMemory());
  SetDeadline();
  BeginCall(method);
}

void Stream::SetDeadline() {
  const auto timeout = head_.timeout();
  if (timeout && *timeout < SteadyTime::max() - received_) deadline_ = received_ + *timeout;
}

// An iteration may take longer than a short timeout. So with a short timeout, the deadline is also
// compared with the clock, not only with the loop's time.
bool Stream::overdue() const {
  constexpr std::chrono::milliseconds kShort(1);
  if (deadline_ <= context_->now()) return true;
  return deadline_ - received_ < kShort && deadline_ <= SteadyNow();
}

void Stream::BeginCall(CallPool* method) {
  if (method == nullptr) {
    return Finish({.code = StatusCode::kUnimplemented,
                   .message = fmt::format("unknown method {}", head_.path())});
  }
  call_ = &method->Take();
  if (call_->is_stream()) incomplete_.unlink();
  call_->Begin(*this);
  if (call_ != nullptr && context_->draining) call_->OnDrain();
}

void Stream::OnData(std::string_view bytes, bool last_frame) {
  unconsumed_ += bytes.size();
  if (call_ != nullptr) call_->OnData(bytes);
  // The caller needs no window after its last frame.
  if (call_ != nullptr && !(last_frame && call_->backlog().bytes == 0)) UpdateFlow();
}

void Stream::OnRequestEnd() {
  input_ = Input::kEnded;
  incomplete_.unlink();
  if (call_ != nullptr) call_->OnRequestEnd();
  if (unfinished_ > 0 || reservation_.granted > 0) UpdateFlow();
}

void Stream::OnDrain() {
  if (call_ != nullptr) call_->OnDrain();
}

void Stream::OnIncomplete() {
  incomplete_.unlink();
  if (call_ == nullptr) return;
  call_->Fail(
      {.code = StatusCode::kDeadlineExceeded, .message = "the request was not complete in time"});
}

void Stream::RunCallbacks() {
  waits_for_callbacks_ = false;
  if (std::exchange(writable_, false) && call_ != nullptr) call_->OnWritable();
  if (std::exchange(resumed_, false) && call_ != nullptr) call_->OnResumed();
  UpdateFlow();
}

void Stream::RequestResume() {
  resumed_ = true;
  RequestCallbacks();
}

void Stream::RequestCallbacks() {
  if (!std::exchange(waits_for_callbacks_, true)) context_->RequestCallbacks(*this);
}

// Bounds the buffered bytes: a caller gets no WINDOW_UPDATE while its stream is paused, or while a
// large message has no reserved memory.
void Stream::UpdateFlow() {
  if (call_ == nullptr) {
    NoteUnfinished(0);
    return context_->memory.Release(reservation_);
  }
  const ServerCall::Backlog backlog = call_->backlog();
  NoteUnfinished(backlog.bytes);
  if (call_ == nullptr) return;  // NoteUnfinished failed the call
  if (call_->is_stream() && input_ == Input::kBody) {
    const bool cut_off = backlog.bytes > 0 && !backlog.paused;
    if (!cut_off) incomplete_.unlink();
    if (cut_off && !incomplete_.is_linked()) {
      context_->incomplete_requests.Add(incomplete_, context_->now());
    }
  }
  if (backlog.paused || !HasMemoryFor(backlog.expected)) return;
  context_->frames.ReturnWindow(id_, std::exchange(unconsumed_, 0));
}

bool Stream::HasMemoryFor(std::size_t expected) {
  if (expected <= kUnreservedBytes) {
    context_->memory.Release(reservation_);
    return true;
  }
  return reservation_.granted > 0 || context_->memory.Reserve(reservation_, expected);
}

void Stream::NoteUnfinished(std::size_t bytes) {
  if (!CountRequest(bytes) && call_ != nullptr) call_->Fail(TooMuchMemory());
}

// Counts the request's headers and `bytes` of its messages. Returns false if the call should fail.
bool Stream::CountRequest(std::size_t bytes) {
  bytes += head_.large_bytes();
  if (bytes == unfinished_) return true;
  if (context_->memory.Count(std::exchange(unfinished_, bytes), bytes)) return true;
  context_->loop.Count(Refusal::kUnfinished);
  return false;
}

void Stream::ForgetCall() {
  call_ = nullptr;
  if (unfinished_ > 0 || reservation_.granted > 0 || reservation_.wanted > 0) UpdateFlow();
}

// If nghttp2 has taken more than half of the bytes in the buffer, first drops the taken bytes. So
// the buffer stays bounded even if it never becomes empty.
void Stream::AppendMessage(std::string_view message) {
  if (taken_ > unsent_bytes()) {
    output_.erase(0, taken_);
    taken_ = 0;
  }
  const bool waits = unsent_bytes() > 0;  // behind other bytes
  char prefix[MessageReader::kPrefixBytes] = {};
  for (std::size_t i = 0; i < 4; ++i) {
    prefix[4 - i] = static_cast<char>(message.size() >> (8 * i));
  }
  output_.append(prefix, sizeof prefix).append(message);
  context_->memory.AddOutput(sizeof prefix + message.size());
  if (waits) return;
  due_ = unsent_bytes();
  context_->unsent_responses.Add(unsent_, context_->now());
}

void Stream::Answer(std::string_view message, std::function<void()> on_lost) {
  on_lost_ = std::move(on_lost);
  AppendMessage(message);
  BeginLast();
  status_.code = StatusCode::kOk;
  context_->frames.SubmitResponse(id_);
}

void Stream::Send(std::string_view message) {
  AppendMessage(message);
  if (output_state_ == Output::kNone) context_->frames.SubmitResponse(id_);
  if (output_state_ == Output::kWaiting) context_->frames.ResumeOutput(id_);
  output_state_ = Output::kOpen;
}

void Stream::Finish(const Status& status) {
  if (output_state_ == Output::kNone) {
    EndOutput();
    return context_->frames.SubmitTrailersOnly(id_, status);
  }
  if (output_state_ == Output::kWaiting) context_->frames.ResumeOutput(id_);
  BeginLast();
  status_ = status;
}

// TakeOutput submits the trailers. nghttp2 calls it only when the caller's window is open, so the
// trailers wait for the window even if all messages have been sent.
void Stream::BeginLast() {
  output_state_ = Output::kLast;
  incomplete_.unlink();
  if (!unsent_.is_linked()) context_->unsent_responses.Add(unsent_, context_->now());
}

void Stream::EndOutput() {
  output_state_ = Output::kEnded;
  context_->early_ends |= !request_ended();
}

// Drops the unsent messages. The trailers do not wait for the caller's window, because flow control
// does not apply to them.
void Stream::Fail(const Status& status) {
  if (output_state_ == Output::kNone) return Finish(status);
  EndOutput();
  DropUnsent();
  context_->frames.SubmitTrailers(id_, status);
}

void Stream::RejectHttp(std::string_view http_status) {
  EndOutput();
  context_->frames.SubmitHttpError(id_, http_status);
}

void Stream::DropUnsent() {
  context_->memory.RemoveOutput(unsent_bytes());
  unsent_.unlink();
  output_.clear();
  taken_ = 0;
}

// If bytes are added while older bytes wait, the wait of the added bytes is measured only from the
// time when nghttp2 has taken the older bytes. So a call is reset when a byte has waited for at
// least Times::stall and at most twice as long.
void Stream::NoteTaken(std::size_t count) {
  taken_ += count;
  context_->memory.RemoveOutput(count);
  due_ -= std::min(due_, count);
  if (due_ > 0) return;
  due_ = unsent_bytes();
  if (due_ > 0) context_->unsent_responses.Add(unsent_, context_->now());
}

std::size_t Stream::TakeOutput(std::uint8_t* buffer, std::size_t size, bool& last) {
  const std::size_t count = std::min(size, unsent_bytes());
  if (output_state_ == Output::kEnded) return kWait;  // the trailers end the stream
  if (count == 0 && output_state_ == Output::kOpen) {
    output_state_ = Output::kWaiting;
    return kWait;
  }
  std::memcpy(buffer, output_.data() + taken_, count);
  NoteTaken(count);
  if (unsent_bytes() > 0) return count;
  DropUnsent();
  last = output_state_ == Output::kLast;
  if (last) {
    EndOutput();
    context_->frames.SubmitTrailers(id_, status_);
  } else if (call_ != nullptr) {
    writable_ = true;
    RequestCallbacks();
  }
  return count;
}

}  // namespace sluice::rpc::http2
