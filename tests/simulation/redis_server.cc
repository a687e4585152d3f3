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

class RedisServer::Session final : public Remote, public std::enable_shared_from_this<Session> {
 public:
  Session(RedisServer& server, std::shared_ptr<Link> link)
      : server_(server), link_(std::move(link)) {}

  void Receive(std::string_view bytes) override {
    reader_.Feed(bytes);
    while (auto words = reader_.Next()) {
      server_.Enqueue({.session = weak_from_this(), .words = std::move(*words)});
    }
  }
  void OnClosed() override {
    const auto self = shared_from_this();
    std::erase(server_.open_, self);
  }
  void Answer(std::string_view reply) { link_->ToWire(reply); }
  void Close() { link_->Cut(); }

 private:
  RedisServer& server_;
  const std::shared_ptr<Link> link_;
  test::CommandReader reader_;
};

RedisServer::RedisServer(World& world, std::span<const Limit> limits)
    : world_(world), script_(limits), clock_(world) {}

RedisServer::~RedisServer() { CutConnections(); }

std::shared_ptr<Link> RedisServer::Accept(const LinkOptions& options) {
  if (vanished_) return nullptr;
  auto link = std::make_shared<Link>(world_, options);
  if (!runs_) return link;  // refused
  link->Join(open_.emplace_back(std::make_shared<Session>(*this, link)).get());
  return link;
}

void RedisServer::CutConnections() {
  for (const auto& session : std::vector(open_)) session->Close();
}

void RedisServer::Kill() {
  runs_ = has_script_ = false;
  commands_.clear();
  CutConnections();
}

void RedisServer::Resume() {
  hangs_ = false;
  RunNext();
}

void RedisServer::Enqueue(Command command) {
  commands_.push_back(std::move(command));
  RunNext();
}

// One command at a time, each of which takes a while.
void RedisServer::RunNext() {
  if (busy_ || hangs_ || commands_.empty()) return;
  busy_ = true;
  const Command command = std::move(commands_.front());
  commands_.pop_front();
  world_.After(world_.Between(Duration(1), per_command_), [this, command] {
    busy_ = false;
    if (hangs_) {
      commands_.push_front(command);
      return;
    }
    // What was sent before the connection was cut is run all the same, if it had arrived.
    const std::string reply = runs_ ? Execute(command.words) : "";
    if (const auto session = command.session.lock()) session->Answer(reply);
    RunNext();
  });
}

std::string RedisServer::Execute(const test::RedisCommand& words) {
  const std::string& name = words[0];
  if (name == "EVALSHA") return RunScript(words);
  if (name == "SCRIPT" && words[1] == "EXISTS")
    return has_script_ ? "*1\r\n:1\r\n" : "*1\r\n:0\r\n";
  if (name == "SCRIPT") {
    has_script_ = true;
    return test::Bulk(redis::kCheckScript.sha1);
  }
  if (name == "UNLINK") {
    for (std::size_t i = 1; i < words.size(); ++i) counters_.erase(words[i]);
    return ":1\r\n";
  }
  return "+OK\r\n";
}

std::string RedisServer::RunScript(const test::RedisCommand& words) {
  if (!error_.empty()) return error_;
  if (!has_script_) return "-NOSCRIPT No matching script.\r\n";
  const std::size_t key_count = std::stoul(words[2]);
  const std::span<const std::string> all(words);
  const auto keys = all.subspan(3, key_count);
  const auto arguments = all.subspan(3 + key_count);
  if (planted_ == Planted::kCallsRunTwice && world_.OneIn(10)) {
    script_.Run(keys, arguments, clock_.Now(), counters_);
  }
  const bool forgets = planted_ == Planted::kGrantsUncounted && world_.OneIn(10);
  Script::Counters forgotten = forgets ? counters_ : Script::Counters();
  std::string reply =
      Array(script_.Run(keys, arguments, clock_.Now(), forgets ? forgotten : counters_));
  if (planted_ == Planted::kRepliesSwapped && !swapped_.empty() &&
      swapped_.size() == reply.size()) {
    std::swap(reply, swapped_);
  } else if (planted_ == Planted::kRepliesSwapped) {
    swapped_ = reply;
  }
  return reply;
}

std::int64_t RedisServer::Used(const std::string& key_part) const {
  std::int64_t used = 0;
  for (const auto& [key, counter] : counters_) {
    if (key.find(key_part) == std::string::npos) continue;
    CounterState state = counter.state;
    Advance(counter.limit, state, clock_.Now());
    const auto* const slots = std::get_if<Concurrency::State>(&state);
    used += slots != nullptr ? slots->counted : sluice::Used(counter.limit, state);
  }
  return used;
}

}  // namespace sluice::simulation
