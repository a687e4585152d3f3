#include "rpc/http2/message_memory.h"

namespace sluice::rpc::http2 {

bool MessageMemory::Reserve(MemoryReservation& reservation, std::size_t bytes) {
  if (reservation.wanted > 0) return false;
  reservation.wanted = bytes;
  waiting_.push_back(&reservation);
  Grant();
  return reservation.granted > 0;
}

void MessageMemory::Release(MemoryReservation& reservation) {
  if (std::exchange(reservation.wanted, 0) > 0) std::erase(waiting_, &reservation);
  reserved_ -= std::exchange(reservation.granted, 0);
  Grant();
}

// A single message may exceed kReservableBytes if no other message has a reservation.
void MessageMemory::Grant() {
  while (!waiting_.empty()) {
    MemoryReservation& first = *waiting_.front();
    if (reserved_ > 0 && reserved_ + first.wanted > kReservableBytes) return;
    waiting_.erase(waiting_.begin());
    first.granted = std::exchange(first.wanted, 0);
    reserved_ += first.granted;
    first.on_granted();
  }
}

bool MessageMemory::Count(std::size_t before, std::size_t after) {
  const std::size_t growth = after - before;  // modulo 2^64 if it has shrunk
  counted_ += growth;
  peer_.bytes += static_cast<std::int64_t>(growth);
  loop_.shared().buffered_bytes.fetch_add(growth, std::memory_order_relaxed);
  return after <= before || IsWithinLimits();
}

bool MessageMemory::IsWithinLimits() const {
  const auto left =
      static_cast<std::int64_t>(loop_.options().max_buffered_bytes -
                                loop_.shared().buffered_bytes.load(std::memory_order_relaxed));
  return counted_ <= kMaxBytes && PeerUse::IsWithinShare(peer_.bytes, left);
}

}  // namespace sluice::rpc::http2
