#include "rpc/http2/server_call.h"

#include <fmt/format.h>

namespace sluice::rpc::http2 {
namespace {

constexpr std::size_t kKeptInflated = 16 * 1024;

Status TooLarge(std::size_t size, std::size_t max) {
  return {.code = StatusCode::kResourceExhausted,
          .message = fmt::format("Received message larger than max ({} vs. {})", size, max)};
}

Status DeadlineExceeded() {
  return {.code = StatusCode::kDeadlineExceeded, .message = "Deadline Exceeded"};
}

}  // namespace

ServerCall::ServerCall(LoopState& loop, ReusePool<ServerCall>& pool)
    : loop_(loop),
      pool_(pool),
      deadline_timer_(loop.loop().timers(), [this] { Fail(DeadlineExceeded()); }) {}

bool ServerCall::Attach(CallStream& stream) {
  stream_ = &stream;
  if (!is_stream()) ++loop_.unary_calls().begun;
  if (stream.deadline() == SteadyTime::max()) return true;
  if (!stream.overdue()) {
    deadline_timer_.Start(stream.deadline());
    return true;
  }
  Release().Finish(DeadlineExceeded());
  return false;
}

MessageReader::Next ServerCall::TakeMessage(std::string_view& message) {
  const std::size_t max = loop_.options().max_message_bytes;
  const Next next = reader_.Take(max);
  if (next == Next::kTooLarge) Fail(TooLarge(reader_.expected(), max));
  if (next == Next::kInvalid) {
    Fail({.code = StatusCode::kInternal, .message = "bad flag before a message"});
  }
  if (next != Next::kMessage) return next;
  message = reader_.message();
  return !reader_.compressed() || Inflate(message) ? Next::kMessage : Next::kInvalid;
}

// Returns false if the call has failed.
bool ServerCall::Inflate(std::string_view& message) {
  const Encoding encoding = stream_->head().encoding();
  const std::size_t max = loop_.options().max_message_bytes;
  if (encoding == Encoding::kIdentity) {
    Fail({.code = StatusCode::kInternal, .message = "compressed message without grpc-encoding"});
    return false;
  }
  const auto outcome = loop_.inflater().Inflate(encoding, message, max, inflated_);
  if (outcome == Inflater::Outcome::kTooLarge) Fail(TooLarge(max + 1, max));
  if (outcome == Inflater::Outcome::kCorrupt) {
    Fail({.code = StatusCode::kInternal, .message = "message cannot be decompressed"});
  }
  message = inflated_;
  return outcome == Inflater::Outcome::kDone;
}

CallStream& ServerCall::Release() {
  CallStream& stream = *stream_;
  stream.ForgetCall();
  Reset();
  return stream;
}

void ServerCall::BecomeAbandoned() {
  deadline_timer_.Cancel();
  stream_->ForgetCall();
  loop_.shared().free_calls.fetch_sub(1, std::memory_order_relaxed);
}

void ServerCall::ReleaseAbandoned() {
  loop_.shared().free_calls.fetch_add(1, std::memory_order_relaxed);
  Reset();
}

void ServerCall::Reset() {
  if (!is_stream()) ++loop_.unary_calls().ended;
  deadline_timer_.Cancel();
  stream_ = nullptr;
  reader_.Reset();
  held_ = 0;
  paused_ = deferred_ = false;
  if (inflated_.capacity() > kKeptInflated) std::string().swap(inflated_);
  pool_.Return(*this);
}

}  // namespace sluice::rpc::http2
