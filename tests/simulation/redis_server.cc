#include "tests/simulation/redis_server.h"

#include <algorithm>
#include <utility>

#include "store/redis/script.h"

namespace sluice::simulation {
namespace {

std::string Array(const std::vector<std::string>& elements) {
  std::string reply = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) reply += test::Bulk(element);
  return reply;
}

}  // namespace

RedisServer::RedisServer(World& world, const Script& script, const Address& address,
                         const SlotMap* slots)
    : world_(world),
      script_(script),
      address_(address),
      slots_(slots),
      clock_(world),
      has_script_(!world.OneIn(4)) {}

std::shared_ptr<Link> RedisServer::Accept(const LinkOptions& options) {
  if (vanished_) return nullptr;
  auto link = std::make_shared<Link>(world_, options);
  if (!runs_) return link;  // refused
  RespSession::Open(link, open_, [this](const auto& session, test::RedisCommand words) {
    Enqueue(*session, std::move(words));
  });
  return link;
}

void RedisServer::Kill() {
  runs_ = has_script_ = false;
  TakeCommands();
  CutConnections();
}

void RedisServer::Resume() {
  hangs_ = false;
  RunNext();
}

void RedisServer::Demote() {
  is_master_ = false;
  counters_ = {};
  for (const Command& command : TakeCommands()) Answer(command);
}

void RedisServer::Promote(Script::Counters counters) {
  is_master_ = runs_ = true;
  counters_ = std::move(counters);
}

void RedisServer::Enqueue(RespSession& session, test::RedisCommand words) {
  const bool asks = words[0] == "ASKING";
  commands_.push_back({.session = session.weak_from_this(),
                       .from = session.from(),
                       .asking = std::exchange(session.asking, asks),
                       .words = std::move(words)});
  RunNext();
}

// Runs one command at a time, each after a delay. A command also runs if its connection was cut
// after the command was sent.
void RedisServer::RunNext() {
  if (busy_ || hangs_ || commands_.empty()) return;
  busy_ = true;
  world_.After(world_.Between(Duration(1), per_command_), [this, taken = times_taken_] {
    if (taken != times_taken_) return;
    busy_ = false;
    if (hangs_) return;
    const Command command = std::move(commands_.front());
    commands_.pop_front();
    Answer(command);
    RunNext();
  });
}

std::deque<RedisServer::Command> RedisServer::TakeCommands() {
  ++times_taken_;
  busy_ = false;
  return std::exchange(commands_, {});
}

void RedisServer::Answer(const Command& command) {
  const std::string reply = Execute(command);
  if (const auto session = command.session.lock()) session->Answer(reply);
}

std::string RedisServer::Execute(const Command& command) {
  const test::RedisCommand& words = command.words;
  const std::string& name = words[0];
  if (name == "EVALSHA") return RunScript(command);
  if (name == "UNLINK") return Unlink(command);
  if (name == "SCRIPT" && words[1] == "EXISTS")
    return has_script_ ? "*1\r\n:1\r\n" : "*1\r\n:0\r\n";
  if (name == "SCRIPT") {
    has_script_ = true;
    return test::Bulk(redis::kCheckScript.sha1);
  }
  if (name == "ROLE") return Array({is_master_ ? "master" : "slave"});
  if (name == "CLUSTER" && slots_ != nullptr) return slots_->Describe();
  return "+OK\r\n";
}

std::string RedisServer::RefusalOf(std::span<const std::string> keys, bool asking) {
  if (slots_ != nullptr) return slots_->RefusalOf(address_, keys, asking, counters_);
  return is_master_ ? "" : "-READONLY You can't write against a read only replica.\r\n";
}

std::string RedisServer::Unlink(const Command& command) {
  const auto keys = std::span(command.words).subspan(1);
  const std::string refusal = RefusalOf(keys, command.asking);
  if (!refusal.empty()) return refusal;
  const Script::Counters before = Script::Copy(counters_);
  for (const std::string& key : keys) {
    counters_.by_key.erase(key);
    std::erase_if(counters_.by_name, [&](const auto& it) { return it.second.key == key; });
  }
  if (on_reset_) on_reset_(before, counters_);
  return ":1\r\n";
}

std::string RedisServer::CallScript(const Command& command, Script::Counters& counters) const {
  const std::size_t key_count = std::stoul(command.words[2]);
  const std::span<const std::string> all(command.words);
  const auto may_read = [&](std::string_view key) {
    return slots_ == nullptr || slots_->MayRead(address_, key, command.asking, counters_);
  };
  const auto reply = script_.Run({.keys = all.subspan(3, key_count),
                                  .arguments = all.subspan(3 + key_count),
                                  .now = clock_.Now() + world_.redis_ahead(),
                                  .server = command.from,
                                  .may_read = may_read,
                                  .planted = planted_},
                                 counters);
  // Without error messages, the script returns the blob alone.
  return reply.size() == 1 ? test::Bulk(reply.front()) : Array(reply);
}

std::string RedisServer::RunScript(const Command& command) {
  ++calls_;
  if (!error_.empty()) return error_;
  const std::size_t key_count = std::stoul(command.words[2]);
  const std::string refusal =
      RefusalOf(std::span(command.words).subspan(3, key_count), command.asking);
  if (!refusal.empty()) return refusal;
  if (!has_script_) return "-NOSCRIPT No matching script.\r\n";
  if (planted_ == Planted::kCallsRunTwice && world_.OneIn(10)) CallScript(command, counters_);
  const bool forgets = planted_ == Planted::kGrantsUncounted && world_.OneIn(10);
  Script::Counters forgotten = forgets ? Script::Copy(counters_) : Script::Counters();
  std::string reply = CallScript(command, forgets ? forgotten : counters_);
  if (planted_ == Planted::kRepliesSwapped && !swapped_.empty() &&
      swapped_.size() == reply.size()) {
    std::swap(reply, swapped_);
  } else if (planted_ == Planted::kRepliesSwapped) {
    swapped_ = reply;
  }
  return reply;
}

}  // namespace sluice::simulation
