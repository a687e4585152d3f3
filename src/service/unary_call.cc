#include "service/unary_call.h"

#include "service/api_codec.h"
#include "service/call_pool.h"

namespace sluice {

void UnaryCall::RequestNext(void* tag) {
  responder_.reset();
  context_.emplace();
  responder_.emplace(&*context_);
  auto& queue = pool().queue();
  (service_.*request_)(&*context_, &request_buffer_, &*responder_, &queue, &queue, tag);
}

// The views into the bytes need them in one piece; a large request may come in many.
std::string_view UnaryCall::RequestBytes() {
  if (!request_buffer_.TrySingleSlice(&request_bytes_).ok() &&
      !request_buffer_.DumpToSingleSlice(&request_bytes_).ok()) {
    request_bytes_ = grpc::Slice();
  }
  return {reinterpret_cast<const char*>(request_bytes_.begin()), request_bytes_.size()};
}

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
