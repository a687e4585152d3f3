// A message as gRPC receives it, in one piece, so that there can be views into it.
#pragma once

#include <string_view>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

namespace sluice {

// The bytes of `buffer`, which may have come in many pieces; they live as long as `piece`.
std::string_view InOnePiece(const grpc::ByteBuffer& buffer, grpc::Slice& piece);

}  // namespace sluice
