// A blocking connection to a redis-server, for a test's own commands.
//
// Not thread-safe. A failed command ends the test program: see require.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct redisContext;
struct redisReply;

namespace sluice::test {

class RedisConnection {
 public:
  using Command = std::vector<std::string>;

  explicit RedisConnection(const std::string& socket_path);
  ~RedisConnection();
  RedisConnection(RedisConnection&&) = default;

  std::int64_t Integer(const Command& command);
  std::string Text(const Command& command);
  // The elements of an array reply as text. Nested arrays are flattened.
  std::vector<std::string> List(const Command& command);

  // The error in the reply to a command, or an empty string. The error does not end the program.
  std::string ErrorOf(const Command& command);

  // The number of calls of a command, by clients and by scripts.
  std::int64_t Calls(const std::string& command);

  // Makes the server save its data and exit. Must be the last command.
  void Shutdown();

  // All keys of the selected database, except the key of the fleet's list of servers.
  std::vector<std::string> Keys();

 private:
  struct Free {
    void operator()(redisContext* context) const;
    void operator()(redisReply* reply) const;
  };
  using Reply = std::unique_ptr<redisReply, Free>;

  Reply Run(const Command& command);
  Reply Ask(const Command& command);

  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace sluice::test
