// A node of the Redis store, on a loop whose iterations the test runs. The test passes the node's
// commands to a real Redis, and delivers the replies.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/redis/node.h"
#include "tests/store/raw_redis.h"
#include "tests/store/resp.h"
#include "tests/support/manual_loop.h"
#include "tests/support/redis_server.h"

namespace sluice::test {

inline constexpr FixedWindow kTen{.limit = 10, .window = std::chrono::seconds(30)};

// A check of one counter. It records how often it was answered, and its place among all answers.
class RecordingCheck final : public StoreCheck {
 public:
  RecordingCheck(std::string key, const Limit& limit, int& answers)
      : key_(std::move(key)), answers_(answers) {
    counters.push_back({.key = key_, .limit = &limit, .verdict = {}});
  }

  int answered = 0;
  int place = -1;  // position among all answers
  std::function<void()> then;

 private:
  void OnDecided() override {
    ++answered;
    place = answers_++;
    if (then) then();
  }

  const std::string key_;
  int& answers_;
};

// The fixture. It contains one node, in place of a store.
class NodeTest : public testing::Test, private redis::NodeOwner {
 protected:
  using Checks = std::vector<std::unique_ptr<RecordingCheck>>;

  NodeTest() { Begin({}); }
  ~NodeTest() override { End(); }

  // Starts again with a new node, and waits until it is ready.
  void Begin(const redis::NodeOptions& options, bool inspects = false) {
    Create(options, inspects);
    LogIn();
  }

  // Like Begin, but the node is not connected yet.
  void Create(const redis::NodeOptions& options, bool inspects = false) {
    End();
    const redis::ServerAccess access;
    settler_.emplace(loop_, metrics_, options.listener,
                     [this](redis::PendingPtr pending) { node_->Submit(std::move(pending)); });
    context_.emplace(redis::NodeContext{.loop = loop_,
                                        .owner = *this,
                                        .settler = *settler_,
                                        .metrics = metrics_,
                                        .access = access,
                                        .clustered = clustered_,
                                        .inspects = inspects,
                                        .options = options});
    const RedisUrl url = RedisUrl::Parse(server_.url()).value();
    node_ = std::make_unique<redis::Node>(*context_, url.addresses.front(), shared_, unconnected_);
  }

  void End() {
    if (!node_) return;
    loop_.RunIteration([this] {
      settler_->Stop();
      node_->Stop();
      loop_.DisposeLater(std::move(node_));
    });
  }

  // Runs iterations until the node has logged in.
  void LogIn() {
    for (int i = 0; i < 100 && !Ready(); ++i) {
      RunIteration({}, std::chrono::milliseconds(10));
      while (!commands_.empty() && !Ready()) Reply();
    }
    ASSERT_TRUE(Ready());
  }
  bool Ready() { return shared_.status.WaitUntilReady(SteadyTime::min()); }

  // Runs an iteration and appends the sent commands to commands_.
  void RunIteration(const std::function<void()>& work = {}, Duration later = {}) {
    loop_.RunIteration(work, later);
    if (loop_.wire() != known_wire_) {
      known_wire_ = loop_.wire();
      reader_ = {};
      commands_.clear();
    }
    if (known_wire_ == nullptr) return;
    reader_.Feed(loop_.wire()->TakeSent());
    while (auto command = reader_.Next()) commands_.push_back(std::move(*command));
  }

  // Redis' reply to the oldest command, as bytes.
  std::string TakeReply() {
    const RedisCommand command = std::move(commands_.front());
    commands_.pop_front();
    return redis_.Ask(command);
  }
  void Receive(const std::string& bytes) {
    RunIteration([&] { loop_.wire()->Receive(bytes); });
  }
  // Delivers Redis' reply to the oldest command, in a separate iteration.
  void Reply() { Receive(TakeReply()); }

  RecordingCheck& Make(std::string key) {
    checks_.push_back(std::make_unique<RecordingCheck>(std::move(key), limit_, answers_));
    return *checks_.back();
  }
  RecordingCheck& Submit(std::string key) {
    RecordingCheck& check = Make(std::move(key));
    node_->Submit(check);
    return check;
  }
  void SubmitDifferent(int n, const std::string& prefix) {
    for (int i = 0; i < n; ++i) Submit(prefix + std::to_string(i));
  }

  // The number of groups of coalesced checks in a command; 0 if it is not a script call.
  static int RunsOf(const RedisCommand& command) {
    if (command[0] != "EVALSHA") return 0;
    double runs = 0;
    std::memcpy(&runs, command.back().data() + 5 * sizeof runs, sizeof runs);
    return static_cast<int>(runs);
  }
  std::vector<int> Runs() const {
    std::vector<int> runs;
    for (const RedisCommand& command : commands_) runs.push_back(RunsOf(command));
    return runs;
  }

  // Replies to all commands. Returns how many groups of coalesced checks they contained.
  int ReplyToAll() {
    int runs = 0;
    for (; !commands_.empty(); Reply()) runs += Runs().front();
    return runs;
  }

  static std::int64_t Remaining(const StoreCheck& check) {
    return check.counters[0].verdict.remaining;
  }

  const Limit limit_ = kTen;
  RedisServer server_;
  RawRedis redis_{server_.socket_path()};
  MetricsRegistry metrics_;
  redis::ServerState shared_{"test", 1, metrics_};
  ManualLoop loop_;
  std::optional<redis::Settler> settler_;
  std::optional<redis::NodeContext> context_;
  Checks checks_;
  int answers_ = 0;
  std::unique_ptr<redis::Node> node_;
  ManualLoop::Wire* known_wire_ = nullptr;
  CommandReader reader_;
  std::deque<RedisCommand> commands_;  // sent but not answered yet
  std::vector<bool> reachable_;        // as reported to the owner
  std::vector<bool> lost_;             // as reported to the owner, if it is unreachable
  std::vector<redis::PendingPtr> redirected_;
  // Both take effect at the next Begin.
  bool clustered_ = false;
  redis::Node::WhenUnconnected unconnected_ = redis::Node::WhenUnconnected::kFail;

 private:
  void OnRedirect(redis::Node&, redis::PendingPtr pending, std::string_view) override {
    redirected_.push_back(std::move(pending));
  }
  void OnRedirect(redis::Node&, StoreReset&, std::string_view) override {}
  void OnRedirected(redis::Node&) override {}
  void OnLayoutSuspect() override {}
  void OnUnreachable(const redis::Node&, bool lost) override {
    reachable_.push_back(false);
    lost_.push_back(lost);
  }
  void OnReachable(const redis::Node&) override {
    settler_->SendDeferred();
    reachable_.push_back(true);
  }
  std::string ProbeKey(const redis::Node&) override { return "sluice:{probe}:fixed_window:1s"; }
};

}  // namespace sluice::test
