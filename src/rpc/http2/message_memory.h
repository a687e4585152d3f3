// Limits the memory that one connection uses for messages. A message counts while it is incomplete,
// not delivered yet, or not taken by the peer yet. Also decides which large messages the connection
// can receive now. The same bytes count toward the limits of the connection's peer and of the
// server.
//
// A small message always fits the caller's window. A large message needs WINDOW_UPDATE before it is
// complete. The caller gets WINDOW_UPDATE only when a part of kReservableBytes is granted to the
// message. Parts are granted in order of arrival. So if memory is short, large messages are
// received one after another, without deadlock.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "rpc/http2/loop_state.h"

namespace sluice::rpc::http2 {

// The memory that one stream has reserved for its large message.
struct MemoryReservation {
  std::size_t granted = 0;
  std::size_t wanted = 0;  // requested and not granted yet
  std::function<void()> on_granted;
};

class MessageMemory {
 public:
  static constexpr std::size_t kMaxBytes = 16 * 1024 * 1024;
  static constexpr std::size_t kReservableBytes = 1024 * 1024;

  MessageMemory(LoopState& loop, PeerUse& peer) : loop_(loop), peer_(peer) {}

  // Requests memory for a message of `bytes`. When the memory is granted, on_granted is called,
  // possibly before Reserve returns. Returns whether it was granted in this call.
  bool Reserve(MemoryReservation& reservation, std::size_t bytes);
  // Frees the reserved memory, or cancels the request.
  void Release(MemoryReservation& reservation);

  // Records that a stream's unfinished messages changed from `before` to `after` bytes. Returns
  // false if they have grown, and this connection, its peer or the server is now above its limit.
  bool Count(std::size_t before, std::size_t after);

  // Bytes of responses. Nearly all are taken in the iteration that adds them. So CountOutput counts
  // only the bytes left when it is called.
  void AddOutput(std::size_t bytes) { output_ += bytes; }
  void RemoveOutput(std::size_t bytes) {
    output_ -= bytes;
    if (output_ < counted_output_) CountOutput();
  }
  void CountOutput() {
    if (output_ != counted_output_) Count(std::exchange(counted_output_, output_), output_);
  }
  std::size_t output() const { return output_; }

  // Whether this connection, its peer and the server are within their limits.
  bool IsWithinLimits() const;

 private:
  void Grant();

  LoopState& loop_;
  PeerUse& peer_;
  std::vector<MemoryReservation*> waiting_;
  std::size_t reserved_ = 0;  // granted bytes of kReservableBytes
  std::size_t counted_ = 0;   // all bytes that count
  std::size_t output_ = 0;
  std::size_t counted_output_ = 0;  // the part of output_ in counted_
};

}  // namespace sluice::rpc::http2
