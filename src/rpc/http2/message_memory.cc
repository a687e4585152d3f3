#include "rpc/http2/message_memory.h"

#include <utility>

#include "rpc/http2/shard.h"
#include "rpc/http2/stream.h"

namespace sluice::rpc::http2 {

bool MessageMemory::TakeShare(Stream& stream, std::size_t bytes) {
  if (stream.wanted_share > 0) return false;
  stream.wanted_share = bytes;
  waiting_.push_back(&stream);
  Grant();
  return stream.share > 0;
}

void MessageMemory::ReturnShare(Stream& stream) {
  if (std::exchange(stream.wanted_share, 0) > 0) std::erase(waiting_, &stream);
  shared_ -= std::exchange(stream.share, 0);
  Grant();
}

// A single message may exceed kSharedBytes if no other message has a share.
void MessageMemory::Grant() {
  while (!waiting_.empty()) {
    Stream& stream = *waiting_.front();
    if (shared_ > 0 && shared_ + stream.wanted_share > kSharedBytes) return;
    waiting_.erase(waiting_.begin());
    stream.share = std::exchange(stream.wanted_share, 0);
    shared_ += stream.share;
    stream.OnShareGranted();
  }
}

bool MessageMemory::Count(std::size_t before, std::size_t after) {
  const std::size_t growth = after - before;  // modulo 2^64 if it has shrunk
  unfinished_ += growth;
  const std::size_t total =
      growth + shard_.shared().unfinished_bytes.fetch_add(growth, std::memory_order_relaxed);
  if (after <= before) return true;
  if (unfinished_ <= kMaxUnfinishedBytes && total <= SharedState::kMaxUnfinishedBytes) return true;
  shard_.Count(Refusal::kUnfinished);
  return false;
}

}  // namespace sluice::rpc::http2
