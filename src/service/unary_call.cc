#include "service/unary_call.h"

#include "service/api_codec.h"
#include "service/byte_buffer.h"
#include "service/call_pool.h"

namespace sluice {

void UnaryCall::RequestNext(void* tag) {
  context_.emplace();
  responder_.emplace(&*context_);
  auto& queue = pool().queue();
  (service_.*request_)(&*context_, &request_buffer_, &*responder_, &queue, &queue, tag);
}

void UnaryCall::LetGo() {
  responder_.reset();
  context_.reset();
  request_buffer_.Clear();
  request_bytes_ = grpc::Slice();
}

std::string_view UnaryCall::RequestBytes() { return InOnePiece(request_buffer_, request_bytes_); }

SteadyTime UnaryCall::Deadline() const { return ToSteadyTime(context_->raw_deadline()); }

grpc::ByteBuffer UnaryCall::Serialize(const google::protobuf::MessageLite& response) {
  grpc::Slice slice(response.ByteSizeLong());
  // A slice is read-only to those it is shared with; this one is not shared yet.
  response.SerializeWithCachedSizesToArray(const_cast<std::uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

void UnaryCall::Finish(const grpc::ByteBuffer& response) {
  responder_->Finish(response, grpc::Status::OK, EndOfRpc());
}

void UnaryCall::Finish(const Error& error) {
  responder_->FinishWithError(ToStatus(error), EndOfRpc());
}

}  // namespace sluice
