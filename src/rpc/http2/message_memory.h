// Limits the memory that one connection uses for messages that are incomplete, not yet delivered or
// not yet taken by the peer, and decides which of its large messages can be received now. The same
// bytes count for its peer and for the server.
//
// A small message always fits the caller's window. A large message needs WINDOW_UPDATE before it is
// complete. It gets one only with a share of kSharedBytes, granted in order of arrival. So if
// memory is short, large messages are received one after another, without deadlock.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "rpc/http2/peer_use.h"

namespace sluice::rpc::http2 {

class Shard;
class Stream;

class MessageMemory {
 public:
  static constexpr std::size_t kMaxBytes = 16 * 1024 * 1024;
  static constexpr std::size_t kSharedBytes = 1024 * 1024;

  MessageMemory(Shard& shard, PeerUse& peer) : shard_(shard), peer_(peer) {}

  // Requests a share for a message of `bytes`. Returns whether it was granted at once; otherwise
  // stream.OnShareGranted is called later.
  bool TakeShare(Stream& stream, std::size_t bytes);
  // Returns the share, or cancels the request for one.
  void ReturnShare(Stream& stream);

  // Records that a stream's unfinished bytes changed from `before` to `after`. Returns false if
  // they have grown beyond the limit of this connection, its peer or the server.
  bool Count(std::size_t before, std::size_t after);

  // Bytes of responses. Nearly all are taken in the iteration that adds them, so those left count
  // only when CountOutput is called.
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

  Shard& shard_;
  PeerUse& peer_;
  std::vector<Stream*> waiting_;
  std::size_t shared_ = 0;   // granted bytes of kSharedBytes
  std::size_t counted_ = 0;  // all bytes that count
  std::size_t output_ = 0;
  std::size_t counted_output_ = 0;  // its part of counted_
};

}  // namespace sluice::rpc::http2
