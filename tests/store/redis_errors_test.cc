#include "tests/store/redis_errors_test.h"

#include <atomic>
#include <filesystem>
#include <set>

#include "base/thread.h"
#include "tests/store/fake_redis.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {
namespace {

// Runs a slow command on a separate thread, and ignores its result.
class LongCommand {
 public:
  LongCommand(const RedisServer& server, RedisConnection::Command command)
      : connection_(server.Connect()),
        thread_("long-command", [this, command] { connection_.ErrorOf(command); }) {}
  ~LongCommand() { thread_.Join(); }

 private:
  RedisConnection connection_;
  Thread thread_;
};

TEST_F(RedisErrors, NOSCRIPT_ScriptFlushed) {
  RedisServer server;
  ConnectAndWait(server.url());
  for (int i = 0; i < 4; ++i) {
    server.Connect().Text({"SCRIPT", "FLUSH"});
    EXPECT_EQ(Check(i % 2), std::nullopt);
  }
  ExpectAsInTheManual("NOSCRIPT");
}

TEST_F(RedisErrors, LOADING_ServerReadsItsData) {
  RedisServer server({.arguments = {"--enable-debug-command", "yes"}});
  auto redis = server.Connect();
  redis.Text({"DEBUG", "POPULATE", "3000"});
  redis.Text({"CONFIG", "SET", "key-load-delay", "500"});
  redis.Text({"CONFIG", "SET", "loading-process-events-interval-bytes", "1024"});
  ConnectAndWait(server.url());
  {
    const LongCommand reload(server, {"DEBUG", "RELOAD"});
    CheckUntilCounted("LOADING");
  }
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return !Check(0) && !Check(1); }));
  ExpectAsInTheManual("LOADING");
}

TEST_F(RedisErrors, READONLY_MasterBecomesAReplica) {
  RedisServer server;
  ConnectAndWait(server.url());
  server.Connect().Text({"REPLICAOF", "127.0.0.1", "1"});
  CheckUntilCounted("READONLY");
  CheckUntilCounted("READONLY");
  ExpectAsInTheManual("READONLY");
}

TEST_F(RedisErrors, READONLY_WithTheTextOfRedis6) {
  FakeRedis server([&](const RedisCommand& command) {
    return command[0] == "EVALSHA"
               ? "-ERR Error running script (call to f_4d831abeb03d4bc5cc5dcd6e19e1860bd3292a19): "
                 "@user_script:1317: @user_script: 1317: -READONLY You can't write against a read "
                 "only replica.\r\n"
               : FakeRedis::AnswerLogin(command);
  });
  ConnectAndWait(server.url());
  CheckUntilCounted("READONLY");
  ExpectAsInTheManual("READONLY");
}

TEST_F(RedisErrors, MASTERDOWN_ReplicaHasLostItsMaster) {
  RedisServer server({.arguments = {"--replica-serve-stale-data", "no"}});
  ConnectAndWait(server.url());
  server.Connect().Text({"REPLICAOF", "127.0.0.1", "1"});
  CheckUntilCounted("MASTERDOWN");
  ExpectAsInTheManual("MASTERDOWN");
}

TEST_F(RedisErrors, NOREPLICAS_TooFewReplicasFollow) {
  RedisServer server({.arguments = {"--min-replicas-to-write", "1"}});
  ConnectAndWait(server.url());
  CheckOften(StoreFailure::kRejected);
  ExpectAsInTheManual("NOREPLICAS");
}

TEST_F(RedisErrors, BUSY_ScriptOfAnotherClientRuns) {
  RedisServer server({.arguments = {"--lua-time-limit", "1"}});
  auto redis = server.Connect();
  ConnectAndWait(server.url());
  {
    const LongCommand script(server, {"EVAL", "while true do end", "0"});
    CheckUntilCounted("BUSY");
    CheckOften(StoreFailure::kRejected);
    EXPECT_TRUE(WaitUntil(kTimeout, [&] { return redis.ErrorOf({"SCRIPT", "KILL"}).empty(); }));
  }
  EXPECT_EQ(Check(), std::nullopt);
  ExpectAsInTheManual("BUSY");
}

TEST_F(RedisErrors, OOM_ServerIsFull) {
  RedisServer server({.arguments = {"--maxmemory", "1", "--maxmemory-policy", "noeviction"}});
  ConnectAndWait(server.url());
  CheckOften(StoreFailure::kRejected);
  ExpectAsInTheManual("OOM");
}

TEST_F(RedisErrors, MISCONF_ServerCannotSave) {
  RedisServer server({.arguments = {"--save", "3600 1"}});
  auto redis = server.Connect();
  const std::filesystem::path dir = redis.List({"CONFIG", "GET", "dir"})[1];
  std::filesystem::create_directory(dir / "dump.rdb");  // so that Redis cannot write this file
  ConnectAndWait(server.url());
  redis.Text({"BGSAVE"});
  CheckUntilCounted("MISCONF");
  CheckOften(StoreFailure::kRejected);
  ExpectAsInTheManual("MISCONF");
}

TEST_F(RedisErrors, NOAUTH_NoPasswordIsGiven) {
  RedisServer server({.arguments = {"--requirepass", "secret"}});
  Connect(server.url());
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Count("NOAUTH") > 3; }));
  CheckOften(StoreFailure::kUnreachable);
  ExpectAsInTheManual("NOAUTH");
}

TEST_F(RedisErrors, WRONGPASS_PasswordIsWrong) {
  RedisServer server({.arguments = {"--requirepass", "secret"}});
  Connect("unix://default:sesame@" + server.socket_path());
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Count("WRONGPASS") > 3; }));
  CheckOften(StoreFailure::kUnreachable);
  ExpectAsInTheManual("WRONGPASS");
}

// redis-server's arguments for a user "sluice" that may call all commands except `command`.
std::vector<std::string> AllBut(const std::string& command) {
  return {"--user", "sluice", "on", ">secret", "~sluice:*", "+@all", "-" + command};
}

std::string UrlOfUser(const RedisServer& server) {
  return "unix://sluice:secret@" + server.socket_path();
}

TEST_F(RedisErrors, NOPERM_UserMayNotCallTheScript) {
  RedisServer server({.arguments = AllBut("evalsha")});
  ConnectAndWait(UrlOfUser(server));
  CheckOften(StoreFailure::kRejected);
  ExpectAsInTheManual("NOPERM");
}

TEST_F(RedisErrors, NOPERM_UserMayNotLoadTheScript) {
  RedisServer server({.arguments = AllBut("script|load")});
  Connect(UrlOfUser(server));
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Count("NOPERM") > 3; }));
  CheckOften(StoreFailure::kUnreachable);
  ExpectAsInTheManual("NOPERM");
}

TEST_F(RedisErrors, NOPERM_ScriptMayNotWrite) {
  RedisServer server({.arguments = AllBut("set")});
  ConnectAndWait(UrlOfUser(server));
  CheckOften(StoreFailure::kRejected);
  ExpectAsInTheManual("NOPERM");
}

TEST_F(RedisErrors, WRONGTYPE_KeyOfAnotherClient) {
  RedisServer server;
  auto redis = server.Connect();
  redis.Integer({"SADD", "sluice:{a}:k", "member"});
  ConnectAndWait(server.url());
  CheckOften(StoreFailure::kCounterRejected);
  BlockingCheck other({{"sluice:{a}:other", kMany}});
  EXPECT_FALSE(other.RunOn(*store_, threads_.loop(0)).failure()) << "only that counter fails";
  ExpectAsInTheManual("WRONGTYPE");
}

TEST_F(RedisErrors, ERR_TooManyClients) {
  RedisServer server;
  auto redis = server.Connect();
  redis.Text({"CONFIG", "SET", "maxclients", "1"});
  Connect(server.url());
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Count("ERR") > 3; }));
  EXPECT_NE(Check(), std::nullopt);
  redis.Text({"CONFIG", "SET", "maxclients", "100"});
  EXPECT_TRUE(store_->WaitUntilReady(kTimeout));
  EXPECT_EQ(Check(), std::nullopt);
  ExpectAsInTheManual("ERR");
}

TEST_F(RedisErrors, OTHER_UnknownWord) {
  FakeRedis server([&](const RedisCommand& command) {
    return command[0] == "EVALSHA" ? "-PROXY the upstream is gone\r\n"
                                   : FakeRedis::AnswerLogin(command);
  });
  ConnectAndWait(server.url());
  CheckOften(StoreFailure::kRejected);
  ExpectAsInTheManual("other");
}

// Redis never answers a script call with these replies. After one of them, the store cannot tell
// which command the next reply belongs to.
TEST_F(RedisErrors, PROTOCOL_GarbageAndUnexpectedReplies) {
  std::atomic<int> asked = 0;
  FakeRedis server([&](const RedisCommand& command) -> std::string {
    if (command[0] != "EVALSHA") return FakeRedis::AnswerLogin(command);
    const std::string replies[] = {"HTTP/1.1 400 Bad Request\r\n", ":1\r\n", "+OK\r\n+OK\r\n"};
    return replies[asked++ % 3];
  });
  ConnectAndWait(server.url());
  EXPECT_TRUE(WaitUntil(kTimeout, [&] {
    EXPECT_NE(Check(), std::nullopt);
    return asked >= 6;
  }));
  ExpectAsInTheManual("protocol");
}

TEST_F(RedisErrors, LOST_ConnectionEndsWithinAReply) {
  std::atomic<int> calls = 0;
  FakeRedis server([&](const RedisCommand& command) {
    if (command[0] != "EVALSHA") return FakeRedis::AnswerLogin(command);
    ++calls;
    return std::string("*1\r\n$64\r\n01234567") + std::string(FakeRedis::kCut);
  });
  ConnectAndWait(server.url());
  EXPECT_EQ(Check(), StoreFailure::kTimeout) << "the check may have been charged";
  EXPECT_EQ(calls, 1) << "it may have been charged, so it is not sent again";
  EXPECT_TRUE(WaitUntil(kTimeout, [&] {
    return metrics_.Render().find("sluice_redis_unknown_outcomes_total 1") != std::string::npos;
  }));
  ExpectAsInTheManual("lost");
}

TEST_F(RedisErrors, CONNECT_NobodyListens) {
  const TempDir dir;
  Connect("unix://" + (dir.path() / "nothing.sock").string());
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Count("connect") > 3; }));
  CheckOften(StoreFailure::kUnreachable);
  ExpectAsInTheManual("connect");
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return std::tolower(c); });
  return text;
}

TEST(RedisErrorsOfTheManual, EachHasASeriesAndATest) {
  std::set<std::string> in_manual, tested, on_page;
  for (const auto& [word, row] : RowsOfTheManual()) in_manual.insert(word);
  const auto& suites = *testing::UnitTest::GetInstance();
  for (int i = 0; i < suites.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *suites.GetTestSuite(i);
    if (std::string(suite.name()).find("RedisErrors") != 0) continue;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string name = suite.GetTestInfo(j)->name();
      tested.insert(Lower(name.substr(0, name.find('_'))));
    }
  }
  MetricsRegistry metrics;
  const redis::RedisMetrics all(metrics, {});
  const std::string page = metrics.Render();
  const std::string series = "errors_total{kind=\"";
  for (std::size_t at = page.find(series); at != page.npos; at = page.find(series, at + 1)) {
    const std::size_t begin = at + series.size();
    on_page.insert(page.substr(begin, page.find('"', begin) - begin));
  }
  EXPECT_EQ(in_manual, on_page);
  for (const std::string& word : in_manual) EXPECT_TRUE(tested.contains(Lower(word))) << word;
}

}  // namespace
}  // namespace sluice::test
