#include "store/redis/fleet_member.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "store/redis/redis_error.h"

namespace sluice::redis {
namespace {

// ARGV: the server's name; the time after which a server is gone (ms). Returns the names of all
// servers. An entry whose time is later than now + ARGV[2] was written before Redis' clock was set
// back, so it is removed, too.
constexpr std::string_view kReport = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now + ARGV[2], '+inf')
redis.call('PEXPIRE', KEYS[1], 10 * ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
)lua";

}  // namespace

FleetMember::FleetMember(Context context, OnView on_view)
    : loop_(context.loop),
      server_(std::move(context.server)),
      status_(context.status),
      on_view_(std::move(on_view)),
      name_(fmt::format("{:02x}", fmt::join(RandomBytes(), ""))),
      timer_(loop_.timers(), [this] { OnTime(); }),
      connection_(loop_, std::move(context.access), status_, *this) {
  connection_.Start();
}

void FleetMember::Stop() {
  timer_.Cancel();
  connection_.Stop();
}

void FleetMember::OnTime() {
  if (!connection_.ready()) return;
  if (awaits_reply_) return connection_.Restart("no answer to a report of this server in time");
  Report();
  timer_.Start(loop_.now() + kEvery);
}

void FleetMember::Report() {
  const std::string gone_after = fmt::to_string(std::chrono::milliseconds(kGoneAfter).count());
  if (asked_) connection_.Send({"ASKING"});
  connection_.Send({"EVAL", kReport, "1", kKey, name_, gone_after});
  awaits_reply_ = true;
}

void FleetMember::OnReply(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_STATUS) return;  // to ASKING
  awaits_reply_ = false;
  if (reply.type == REDIS_REPLY_ARRAY && reply.elements > 0) {
    connection_.MarkHealthy();
    return See(reply);
  }
  const bool failed = reply.type == REDIS_REPLY_ERROR;
  const std::string error(failed ? TextOf(reply) : "not a list of servers");
  if (IsRedirect(error)) return FollowRedirect(error);
  if (WantsReconnect(error)) return connection_.Restart(error);
  status_.OnError(error, loop_.now(),
                  {.what = "answers this server's reports with an error",
                   .consequence = "this server's share of the limits does not change until Redis "
                                  "accepts a report"});
  asked_.reset();
  view_.connected = true;
  view_.accepted = false;
  on_view_(view_);
}

// A migration of kKey's slot can take long, for example if it is interrupted. Until it ends,
// reports go to the node that an ASK names. After a MOVED, the layout names the new owner.
void FleetMember::FollowRedirect(std::string_view error) {
  const auto to = ParseRedirect(error, AddressToTry().value_or(Address()));
  if (!to || WordOf(error) != "ASK") return connection_.Restart(error);
  asked_ = to->address;
  connection_.ReconnectElsewhere();
}

void FleetMember::See(const redisReply& names) {
  view_.rank = 0;
  for (std::size_t i = 0; i < names.elements; ++i) {
    if (TextOf(*names.element[i]) < name_) ++view_.rank;
  }
  if (seen_.size() == kRemembered) seen_.pop_front();
  seen_.push_back(static_cast<std::int64_t>(names.elements));
  view_.servers = *std::max_element(seen_.begin(), seen_.end());
  view_.connected = view_.accepted = true;
  on_view_(view_);
}

void FleetMember::Lose() {
  asked_.reset();
  awaits_reply_ = false;
  view_.connected = view_.accepted = false;
  on_view_(view_);
}

}  // namespace sluice::redis
