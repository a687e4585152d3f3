// Limits the memory that one connection uses for messages that are incomplete or not yet
// delivered, and decides which of its large messages can be received now.
//
// A small message always fits the caller's window. A large message needs WINDOW_UPDATE before it is
// complete. It gets one only with a share of kSharedBytes, granted in order of arrival. So if
// memory is short, large messages are received one after another, without deadlock.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::rpc::http2 {

class Shard;
class Stream;

class MessageMemory {
 public:
  static constexpr std::size_t kMaxUnfinishedBytes = 16 * 1024 * 1024;
  static constexpr std::size_t kSharedBytes = 1024 * 1024;

  explicit MessageMemory(Shard& shard) : shard_(shard) {}

  // Requests a share for a message of `bytes`. Returns whether it was granted at once; otherwise
  // stream.OnShareGranted is called later.
  bool TakeShare(Stream& stream, std::size_t bytes);
  // Returns the share, or cancels the request for one.
  void ReturnShare(Stream& stream);

  // Records that a stream's unfinished bytes changed from `before` to `after`. Returns false if
  // they have grown beyond the limit of this connection or of the server.
  bool Count(std::size_t before, std::size_t after);

 private:
  void Grant();

  Shard& shard_;
  std::vector<Stream*> waiting_;
  std::size_t shared_ = 0;  // granted bytes of kSharedBytes
  std::size_t unfinished_ = 0;
};

}  // namespace sluice::rpc::http2
