// A blocking connection to a redis-server, for what a test wants to see or do there itself.
//
// One thread at a time. A command that fails ends the test program: see require.h.
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
  // The elements of a list, its lists' elements among them, as text.
  std::vector<std::string> List(const Command& command);

  // The error that the command is answered with; empty if there is none. Does not end the program.
  std::string ErrorOf(const Command& command);

  // How many times a command has been called, by clients and by scripts.
  std::int64_t Calls(const std::string& command);

  // Has the server save all it holds and end. The last command.
  void Shutdown();

  // Every key of the selected database but the list of servers, by SCAN.
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
