// Runs the check script, or a variant of it, in a real Redis and returns its reply.
#pragma once

#include <hiredis/hiredis.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/script.h"
#include "store/redis/script_call.h"

namespace sluice::test {

// Not thread-safe.
class ScriptRunner {
 public:
  ScriptRunner(const std::string& socket_path, std::string_view script)
      : context_(redisConnectUnix(socket_path.c_str())) {
    Command({"SCRIPT", "LOAD", script});
    sha1_.assign(reply_->str, reply_->len);
  }

  // Runs the script. Returns the elements of the reply, or none if the reply is an error. They are
  // valid until the next call.
  std::vector<std::string_view> Run(redis::ScriptCall& call, Time now = Time()) {
    return Run(call.Arguments(true, now));
  }
  std::vector<std::string_view> Run(std::span<const std::string_view> arguments) {
    std::vector<std::string_view> command{"EVALSHA", sha1_};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Command(command);
    std::vector<std::string_view> elements;
    if (reply_->type == REDIS_REPLY_STRING) elements.emplace_back(reply_->str, reply_->len);
    for (std::size_t i = 0; reply_->type == REDIS_REPLY_ARRAY && i < reply_->elements; ++i) {
      elements.emplace_back(reply_->element[i]->str, reply_->element[i]->len);
    }
    return elements;
  }

  // Whether the last run was decided by lone.lua.
  bool took_short_way() const { return reply_->type == REDIS_REPLY_STRING; }

  // The time at which Redis removes the key; the epoch if the key does not exist or never expires.
  Time ExpiryOf(std::string_view key) {
    Command({"PEXPIRETIME", key});
    return Time(std::chrono::milliseconds(std::max(0LL, reply_->integer)));
  }

  // The error of the last run, or an empty string.
  std::string error() const {
    return reply_->type == REDIS_REPLY_ERROR ? std::string(reply_->str, reply_->len) : "";
  }

 private:
  void Command(const std::vector<std::string_view>& arguments) {
    std::vector<const char*> data;
    std::vector<std::size_t> sizes;
    for (const auto argument : arguments) {
      data.push_back(argument.data());
      sizes.push_back(argument.size());
    }
    reply_.reset(static_cast<redisReply*>(redisCommandArgv(
        context_.get(), static_cast<int>(data.size()), data.data(), sizes.data())));
  }

  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
  };
  std::unique_ptr<redisContext, Free> context_;
  std::string sha1_;
  std::unique_ptr<redisReply, Free> reply_;
};

}  // namespace sluice::test
