#include "service/byte_buffer.h"

namespace sluice {

std::string_view InOnePiece(const grpc::ByteBuffer& buffer, grpc::Slice& piece) {
  if (!buffer.TrySingleSlice(&piece).ok() && !buffer.DumpToSingleSlice(&piece).ok()) {
    piece = grpc::Slice();
  }
  return {reinterpret_cast<const char*>(piece.begin()), piece.size()};
}

}  // namespace sluice
