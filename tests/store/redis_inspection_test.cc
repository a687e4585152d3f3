// Log lines and metrics about an unsuitable Redis node, at the login and when its state changes.
#include "store/redis/inspection.h"

#include <re2/re2.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/store/node_test.h"
#include "tests/store/test_redis.h"
#include "tests/support/captured_log.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

constexpr std::chrono::seconds kTimeout(20);

class RedisInspection : public testing::Test {
 protected:
  void Connect(const std::string& url) {
    store_ = std::make_unique<RedisStore>(
        threads_, RedisUrl::Parse(url).value(),
        RedisStore::Options{.timeout = kTimeout, .silence = kTimeout, .metrics = &metrics_});
    ASSERT_TRUE(store_->WaitUntilReady(kTimeout));
  }

  double Gauge(const std::string& name) const {
    const std::string page = metrics_.Render();
    const std::size_t at = page.find("\n" + name + " ");
    return at == page.npos ? -1 : std::stod(page.substr(at + name.size() + 2));
  }

  // Makes the store reconnect until a gauge has a wanted value. The store inspects Redis after each
  // login.
  bool LogInUntil(RedisServer& server, const std::string& name, auto wanted) {
    return WaitUntil(kTimeout, [&] {
      server.Connect().Integer({"CLIENT", "KILL", "TYPE", "normal"});
      store_->WaitUntilReady(kTimeout);
      return WaitUntil(std::chrono::milliseconds(300), [&] { return wanted(Gauge(name)); });
    });
  }

  // The number of log lines with `part`. Stops the store first.
  int Lines(std::string_view part) {
    store_.reset();
    return log_.CountLines(part);
  }

  CapturedLog log_;
  MetricsRegistry metrics_;
  net::IoThreads threads_{2};
  std::unique_ptr<RedisStore> store_;

 private:
  void SetUp() override { threads_.Start(); }
};

TEST_F(RedisInspection, EvictionPolicy_IsLoggedWhenItEvictsAndWhenItIsSafeAgain) {
  RedisServer server({.arguments = {"--maxmemory-policy", "allkeys-lru"}});
  Connect(server.url());
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Gauge("sluice_redis_evicts") == 1; }));
  server.Connect().Text({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  EXPECT_TRUE(LogInUntil(server, "sluice_redis_evicts", [](double it) { return it == 0; }));
  EXPECT_EQ(Lines("its maxmemory-policy is allkeys-lru"), 1) << log_.text();
  EXPECT_EQ(Lines("its maxmemory-policy is noeviction"), 1) << log_.text();
}

TEST_F(RedisInspection, DocumentedUser_MayCallAllNeededCommands) {
  TestSingle server;
  Connect(server.url());
  BlockingCheck after({{"sluice:k", FixedWindow{.limit = 1, .window = std::chrono::minutes(1)}}});
  EXPECT_FALSE(after.RunOn(*store_, threads_.loop(0)).failure());
  EXPECT_EQ(Gauge("sluice_redis_refused_commands"), 0);
  EXPECT_EQ(Gauge("sluice_redis_evicts"), 0);
  EXPECT_EQ(Gauge("sluice_redis_replica_lag_seconds"), 0);
  EXPECT_EQ(Lines("may not call"), 0) << log_.text();
}

TEST_F(RedisInspection, CommandsThatTheAclRefuses_AreLogged) {
  std::vector<std::string> arguments = UserOfTheManual();
  for (const char* lacking : {"-set", "-zscore", "-info"}) arguments.emplace_back(lacking);
  RedisServer server({.arguments = arguments});
  Connect("unix://sluice:secret@" + server.socket_path());
  const std::string gauge = "sluice_redis_refused_commands";
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Gauge(gauge) == 3; }));
  server.Connect().Text({"ACL", "SETUSER", "sluice", "-eval"});
  EXPECT_TRUE(LogInUntil(server, gauge, [](double it) { return it == 1; }));
  server.Connect().Text({"ACL", "SETUSER", "sluice", "+@all"});
  EXPECT_TRUE(LogInUntil(server, gauge, [](double it) { return it == 0; }));
  EXPECT_EQ(Lines("its user may not call set, zscore, info"), 1) << log_.text();
  EXPECT_EQ(Lines("its user may not call eval"), 1) << log_.text();
  EXPECT_EQ(Lines("its user may call all"), 1) << log_.text();
}

// The replica is paused, so it does not report its offset.
TEST_F(RedisInspection, ReplicaLagsAndFollowsAgain_EachIsLoggedOnce) {
  RedisServer master({.tcp = true, .arguments = {"--repl-diskless-sync-delay", "0"}});
  RedisServer replica({.arguments = {"--replicaof", "127.0.0.1 " + std::to_string(master.port())}});
  ASSERT_TRUE(WaitUntil(kTimeout, [&] {
    return master.Connect().Text({"INFO", "replication"}).find("state=online") != std::string::npos;
  }));
  Connect(master.url());
  replica.Pause();
  const std::string gauge = "sluice_redis_replica_lag_seconds";
  EXPECT_TRUE(LogInUntil(master, gauge, [](double it) { return it >= 3; }));
  replica.Resume();
  EXPECT_TRUE(LogInUntil(master, gauge, [](double it) { return it < 3; }));
  EXPECT_EQ(Lines("a replica is "), 1) << log_.text();
  EXPECT_EQ(Lines("its replicas follow again"), 1) << log_.text();
}

// For each command that the script calls, the inspection must check that the ACL permits it.
TEST(RedisInspectionOfScript, Script_CallsOnlyTheCheckedCommands) {
  const std::string needed = " " + redis::Inspection::NeededCommands(true) + " ";
  const RE2 call(R"((?:call|try)\('([A-Z]+)')");
  std::set<std::string> called;
  namespace fs = std::filesystem;
  for (const auto& file : fs::recursive_directory_iterator(SLUICE_SOURCE_DIR "/scripts/lua")) {
    if (!file.is_regular_file()) continue;
    std::ifstream lua(file.path());
    const std::string text{std::istreambuf_iterator<char>(lua), {}};
    re2::StringPiece rest(text);
    for (std::string name; RE2::FindAndConsume(&rest, call, &name);) {
      std::transform(name.begin(), name.end(), name.begin(), [](char c) { return tolower(c); });
      called.insert(name);
    }
  }
  EXPECT_GT(called.size(), 10u);
  for (const std::string& name : called) {
    EXPECT_NE(needed.find(" " + name + " "), needed.npos) << name;
  }
}

TEST_F(NodeTest, Inspection_IsRepeatedAfterTenSeconds) {
  Begin({.timeout = std::chrono::minutes(1), .silence = std::chrono::minutes(1)}, true);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(commands_.size(), 1u);
    EXPECT_EQ(commands_.front()[0], "EVAL");
    Reply();
    EXPECT_TRUE(commands_.empty());
    RunIteration({}, redis::Inspection::kEvery + std::chrono::milliseconds(2));
    RunIteration();
  }
}

}  // namespace
}  // namespace sluice::test
