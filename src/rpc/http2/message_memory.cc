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
  counted_ += growth;
  peer_.bytes += static_cast<std::int64_t>(growth);
  shard_.shared().buffered_bytes.fetch_add(growth, std::memory_order_relaxed);
  return after <= before || IsWithinLimits();
}

bool MessageMemory::IsWithinLimits() const {
  const auto left =
      static_cast<std::int64_t>(shard_.options().max_buffered_bytes -
                                shard_.shared().buffered_bytes.load(std::memory_order_relaxed));
  return counted_ <= kMaxBytes && PeerUse::IsWithinShare(peer_.bytes, left);
}

}  // namespace sluice::rpc::http2
