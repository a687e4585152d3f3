// What one connection holds of messages that are not complete or not wanted yet, and which of its
// large messages may come now.
//
// A small message always fits the caller's window. A large one needs window given back before it is
// complete: it gets that once it has a share of kSharedBytes, in order of arrival. So the large
// messages of a connection come one after the other if need be, and never wait for each other.
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

  // Whether `stream` may get window for a message of so many bytes. If not, it is told when it may.
  bool TakeShare(Stream& stream, std::size_t bytes);
  // Also gives up waiting for one.
  void ReturnShare(Stream& stream);

  // A stream's unfinished bytes were `before` and are `after`. False: they have grown too many, of
  // this connection or of the server.
  bool Count(std::size_t before, std::size_t after);

 private:
  void Grant();

  Shard& shard_;
  std::vector<Stream*> waiting_;
  std::size_t shared_ = 0;  // of kSharedBytes, taken
  std::size_t unfinished_ = 0;
};

}  // namespace sluice::rpc::http2
