#include "store/redis/sentinels.h"

#include <hiredis/hiredis.h>

#include <array>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "store/redis/redis_error.h"

namespace sluice::redis {
namespace {

constexpr std::string_view kChannel = "+switch-master";

TopologyContext WithLogin(TopologyContext context, const RedisLogin& login) {
  context.access.login = login;
  context.access.password = nullptr;
  return context;
}

}  // namespace

Sentinels::Sentinels(const RedisUrl& url, TopologyContext context)
    : LayoutWatch(url.addresses, WithLogin(std::move(context), url.sentinel_login)),
      master_(url.master) {}

// While a connection is subscribed, it accepts no query. The sentinel reads the three commands at
// once, so no switch is missed between them.
void Sentinels::Ask(Connection& connection) {
  connection.Send({"UNSUBSCRIBE", kChannel});
  connection.Send({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master_});
  connection.Send({"SUBSCRIBE", kChannel});
}

void Sentinels::Read(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) {
    // Valkey's reply to UNSUBSCRIBE on a connection without subscriptions.
    if (WordOf(TextOf(reply)) == "NOSUB") return;
    return OnNoAnswer(TextOf(reply));
  }
  if (reply.type == REDIS_REPLY_NIL) {
    return OnNoAnswer(fmt::format("the sentinel has no master named {}", master_));
  }
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements < 2) {
    return OnNoAnswer("not a reply of a sentinel");
  }
  if (reply.elements == 2) return Use(TextOf(*reply.element[0]), TextOf(*reply.element[1]));
  if (TextOf(*reply.element[0]) != "message") return;  // a subscribe or unsubscribe reply
  // The message: master, old host, old port, new host, new port.
  std::istringstream message{std::string(TextOf(*reply.element[2]))};
  std::array<std::string, 5> words;
  for (std::string& word : words) message >> word;
  if (message && words[0] == master_) Use(words[3], words[4]);
}

void Sentinels::Use(std::string_view host, std::string_view port) {
  const auto number = ParseNumber<std::uint16_t>(port);
  if (!number) return OnNoAnswer("not a reply of a sentinel");
  OnAnswer(Layout{.servers = {{.host = std::string(host), .port = *number, .unix_path = {}}},
                  .owners = {}});
}

}  // namespace sluice::redis
