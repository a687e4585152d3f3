// Parses the replies of Redis. A reply that exceeds the size given to Next is refused, so no reply
// can exhaust the memory.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

struct redisReader;
struct redisReply;

namespace sluice::redis {

// The maximum size of a command's reply.
struct ReplySize {
  std::size_t bytes = std::size_t{64} << 10;  // of Redis' protocol
  std::size_t elements = 64;                  // of all its arrays together
};

class ReplyReader {
 public:
  struct Deleter {
    void operator()(redisReader* reader) const;
    void operator()(redisReply* reply) const;
  };
  using Reply = std::unique_ptr<redisReply, Deleter>;

  ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  void Feed(std::string_view bytes);

  // The next reply; null if its end has not been fed yet. Fails if the bytes are not a reply of
  // Redis, if the reply has more than `most.elements` elements, or if more than `most.bytes` bytes
  // were fed and the reply is still incomplete. After a failure, the reader must not be used again.
  Result<Reply> Next(const ReplySize& most);

 private:
  std::unique_ptr<redisReader, Deleter> reader_;
  std::size_t bytes_ = 0;     // fed since the last reply
  std::size_t elements_ = 0;  // how many more elements the reply may have
};

}  // namespace sluice::redis
