#include "tests/support/redis_connection.h"

#include <hiredis/hiredis.h>

#include "tests/support/require.h"

namespace sluice::test {

void RedisConnection::Free::operator()(redisContext* context) const { redisFree(context); }
void RedisConnection::Free::operator()(redisReply* reply) const { freeReplyObject(reply); }

RedisConnection::RedisConnection(const std::string& socket_path)
    : context_(redisConnectUnix(socket_path.c_str())) {
  Require(context_ && context_->err == 0, "cannot connect to redis-server at " + socket_path);
}

RedisConnection::~RedisConnection() = default;

std::int64_t RedisConnection::Integer(const Command& command) {
  const Reply reply = Run(command);
  Require(reply->type == REDIS_REPLY_INTEGER, command[0] + ": the reply is not an integer");
  return reply->integer;
}

std::string RedisConnection::Text(const Command& command) {
  const Reply reply = Run(command);
  Require(reply->str != nullptr, command[0] + ": the reply is not a string");
  return {reply->str, reply->len};
}

std::int64_t RedisConnection::Calls(const std::string& command) {
  const std::string stats = Text({"INFO", "commandstats"});
  const std::string before = "cmdstat_" + command + ":calls=";
  const auto at = stats.find(before);
  return at == std::string::npos ? 0 : std::stoll(stats.substr(at + before.size()));
}

void RedisConnection::Shutdown() {
  const Reply refusal(static_cast<redisReply*>(redisCommand(context_.get(), "SHUTDOWN SAVE")));
  Require(refusal == nullptr, "redis-server does not end");
}

std::vector<std::string> RedisConnection::Keys() {
  std::vector<std::string> keys;
  std::string cursor = "0";
  do {
    const Reply reply = Run({"SCAN", cursor, "COUNT", "1000"});
    const redisReply& page = *reply->element[1];
    for (std::size_t i = 0; i < page.elements; ++i) {
      std::string key(page.element[i]->str, page.element[i]->len);
      if (key != "sluice:{fleet}") keys.push_back(std::move(key));
    }
    cursor = reply->element[0]->str;
  } while (cursor != "0");
  return keys;
}

namespace {

void Collect(const redisReply& reply, std::vector<std::string>& texts) {
  if (reply.type == REDIS_REPLY_INTEGER) texts.push_back(std::to_string(reply.integer));
  if (reply.str != nullptr) texts.emplace_back(reply.str, reply.len);
  for (std::size_t i = 0; i < reply.elements; ++i) Collect(*reply.element[i], texts);
}

}  // namespace

std::vector<std::string> RedisConnection::List(const Command& command) {
  std::vector<std::string> texts;
  Collect(*Run(command), texts);
  return texts;
}

std::string RedisConnection::ErrorOf(const Command& command) {
  const Reply reply = Ask(command);
  return reply->type == REDIS_REPLY_ERROR ? std::string(reply->str, reply->len) : "";
}

RedisConnection::Reply RedisConnection::Run(const Command& command) {
  Reply reply = Ask(command);
  Require(reply->type != REDIS_REPLY_ERROR, command[0] + ": " + (reply->str ? reply->str : ""));
  return reply;
}

RedisConnection::Reply RedisConnection::Ask(const Command& command) {
  std::vector<const char*> argv;
  std::vector<std::size_t> lengths;
  for (const std::string& argument : command) {
    argv.push_back(argument.data());
    lengths.push_back(argument.size());
  }
  Reply reply(static_cast<redisReply*>(redisCommandArgv(
      context_.get(), static_cast<int>(argv.size()), argv.data(), lengths.data())));
  Require(reply != nullptr, command[0] + ": redis-server did not answer");
  return reply;
}

}  // namespace sluice::test
