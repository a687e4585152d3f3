#include "service/check_limit_call.h"

#include <chrono>

#include "service/api_codec.h"
#include "service/check_request_parser.h"

namespace sluice {
namespace {

grpc::ByteBuffer Serialize(const v1::CheckLimitResponse& response) {
  grpc::Slice slice(response.ByteSizeLong());
  // A slice is read-only to those it is shared with; this one is not shared yet.
  response.SerializeWithCachedSizesToArray(const_cast<std::uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

void CheckLimitCall::AwaitRequest() {
  responder_.reset();
  context_.emplace();
  responder_.emplace(&*context_);
  state_.store(State::kAwaiting, std::memory_order_release);
  service_.RequestCheckLimit(&*context_, &request_buffer_, &*responder_, &queue_, &queue_, this);
}

void CheckLimitCall::Serve() {
  const SteadyTime received = SteadyNow();
  if (const auto parsed = ParseCheckRequest(RequestBytes(), request, request_id_); !parsed) {
    return Refuse(parsed.error());
  }
  request.deadline = ToSteadyTime(context_->raw_deadline());
  Start(received);
}

// The views into the bytes need them in one piece; a large request may come in many.
std::string_view CheckLimitCall::RequestBytes() {
  if (!request_buffer_.TrySingleSlice(&request_bytes_).ok() &&
      !request_buffer_.DumpToSingleSlice(&request_bytes_).ok()) {
    request_bytes_ = grpc::Slice();
  }
  return {reinterpret_cast<const char*>(request_bytes_.begin()), request_bytes_.size()};
}

void CheckLimitCall::OnAnswer(const Result<CheckAnswer>& answer) {
  if (!answer) return FinishWithError(answer.error());
  FillResponse(*answer, request_id_, response_);
  const grpc::ByteBuffer bytes = Serialize(response_);
  ObserveDuration();
  Finish(bytes);
}

// Nothing of this object may be touched after the responder's Finish: the queue's thread may
// already be awaiting the next RPC with it.
void CheckLimitCall::Finish(const grpc::ByteBuffer& response) {
  state_.store(State::kFinished, std::memory_order_release);
  responder_->Finish(response, grpc::Status::OK, this);
}

void CheckLimitCall::FinishWithError(const Error& error) {
  state_.store(State::kFinished, std::memory_order_release);
  responder_->FinishWithError(ToStatus(error), this);
}

}  // namespace sluice
