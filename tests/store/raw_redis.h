// Sends single commands to a real Redis and returns the raw replies.
//
// Not thread-safe.
#pragma once

#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/connection.h"
#include "tests/store/resp.h"
#include "tests/support/require.h"

namespace sluice::test {

class RawRedis {
 public:
  explicit RawRedis(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    Require(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
            "cannot connect to redis-server");
  }
  ~RawRedis() { close(socket_); }

  std::string Ask(const RedisCommand& command) {
    const std::vector<std::string_view> arguments(command.begin(), command.end());
    std::string bytes;
    redis::AppendCommand(arguments, bytes);
    Require(write(socket_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "redis-server does not read");
    const std::unique_ptr<redisReader, void (*)(redisReader*)> reader(redisReaderCreate(),
                                                                      redisReaderFree);
    std::string reply;
    for (void* whole = nullptr; whole == nullptr;) {
      char part[16384];
      const ssize_t got = read(socket_, part, sizeof part);
      Require(got > 0, "redis-server does not answer");
      reply.append(part, static_cast<std::size_t>(got));
      redisReaderFeed(reader.get(), part, static_cast<std::size_t>(got));
      redisReaderGetReply(reader.get(), &whole);
      if (whole != nullptr) freeReplyObject(whole);
    }
    return reply;
  }

 private:
  const int socket_;
};

}  // namespace sluice::test
