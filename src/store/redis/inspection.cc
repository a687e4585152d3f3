#include "store/redis/inspection.h"

#include <hiredis/hiredis.h>

#include <utility>

#include "base/log.h"
#include "store/redis/connection.h"
#include "store/redis/redis_error.h"

namespace sluice::redis {
namespace {

// ARGV: the needed commands, in one text. Returns the eviction policy, the greatest lag of a
// replica (in seconds, and in bytes), and the commands that the user may not call. If the user may
// not call INFO, the policy is empty and the lag is 0. Before version 7, Redis cannot tell which
// commands are refused, so all count as allowed.
constexpr std::string_view kAsk = R"lua(
local function info(section)
  local found = redis.pcall('INFO', section)
  return type(found) == 'string' and found or ''
end
local policy = string.match(info('memory'), 'maxmemory_policy:([%w-]+)') or ''
local replication = info('replication')
local written = tonumber(string.match(replication, 'master_repl_offset:(%d+)')) or 0
local seconds, bytes = 0, 0
for offset, lag in string.gmatch(replication, 'slave%d+:[^\r\n]*,offset=(%d+),lag=(%d+)') do
  seconds = math.max(seconds, tonumber(lag))
  bytes = math.max(bytes, written - tonumber(offset))
end
local reply = {policy, seconds, bytes}
for command in string.gmatch(redis.acl_check_cmd and ARGV[1] or '', '%a+') do
  if not redis.acl_check_cmd(command, 'sluice:{probe}') then reply[#reply + 1] = command end
end
return reply
)lua";

}  // namespace

Inspection::Inspection(std::string name, MetricsRegistry& metrics, const MetricLabels& labels)
    : name_(std::move(name)),
      evicts_(metrics.GaugeFor(
          "sluice_redis_evicts",
          "1 if Redis evicts counters when it is full (its maxmemory-policy), else 0.", labels)),
      lag_(metrics.GaugeFor("sluice_redis_replica_lag_seconds",
                            "Time since the last report of the replica that is furthest behind.",
                            labels)),
      refused_(metrics.GaugeFor("sluice_redis_refused_commands",
                                "Commands that Sluice needs and Redis' ACL refuses.", labels)) {}

Inspection::~Inspection() {
  for (Gauge* gauge : {&evicts_, &lag_, &refused_}) gauge->Hide();
}

std::string Inspection::NeededCommands(bool clustered) {
  std::string commands =
      "time mget set setrange exists unlink pexpire zadd zcard zcount zrange zrangebyscore zrem "
      "zremrangebyrank zscore zremrangebyscore info";
  if (clustered) commands += " get";
  return commands;
}

void Inspection::Ask(Connection& connection, bool clustered) {
  connection.Send({"EVAL", kAsk, "0", NeededCommands(clustered)});
}

void Inspection::OnReply(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR && WordOf(TextOf(reply)) == "NOPERM") {
    return SeeRefused("eval", 1);
  }
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements < 3) return;
  SeePolicy(TextOf(*reply.element[0]));
  RecordLag(reply.element[1]->integer, reply.element[2]->integer);
  std::string refused;
  for (std::size_t i = 3; i < reply.elements; ++i) {
    refused.append(refused.empty() ? "" : ", ").append(TextOf(*reply.element[i]));
  }
  SeeRefused(refused, static_cast<int>(reply.elements) - 3);
}

// `policy` is empty if the user may not read it.
void Inspection::SeePolicy(std::string_view policy) {
  if (policy.empty()) return;
  const bool evicts = policy != kSafePolicy;
  evicts_.Set(evicts ? 1 : 0);
  if (std::exchange(told_policy_, policy) == policy) return;
  if (evicts) {
    spdlog::warn(
        "redis {}: its maxmemory-policy is {}: an evicted counter restarts at zero, so "
        "limits may be exceeded; set {}",
        name_, LogText(policy), kSafePolicy);
  } else {
    spdlog::info("redis {}: its maxmemory-policy is {}: no counter is evicted", name_,
                 LogText(policy));
  }
}

void Inspection::RecordLag(std::int64_t seconds, std::int64_t bytes) {
  lag_.Set(static_cast<double>(seconds));
  const bool lags = seconds >= kLagging;
  if (std::exchange(told_lag_, lags) == lags) return;
  if (lags) {
    spdlog::warn(
        "redis {}: a replica is {} s and {} bytes behind: counts that it lacks are lost if it "
        "takes over",
        name_, seconds, bytes);
  } else {
    spdlog::info("redis {}: its replicas follow again", name_);
  }
}

void Inspection::SeeRefused(const std::string& commands, int count) {
  refused_.Set(count);
  if (std::exchange(told_refused_, commands) == commands) return;
  if (commands.empty()) {
    spdlog::info("redis {}: its user may call all needed commands", name_);
  } else {
    spdlog::warn("redis {}: its user may not call {}: see the ACL in docs/redis.md", name_,
                 LogText(commands));
  }
}

}  // namespace sluice::redis
