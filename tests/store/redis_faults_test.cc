// Faults of Redis and of the network, with a whole store on its io threads. The store recovers,
// keeps the order of checks, and logs each fault once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/notification.h"
#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/store/fake_redis.h"
#include "tests/support/captured_log.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr FixedWindow kMany{.limit = 1'000'000, .window = minutes(10)};

RedisUrl Url(const std::string& text) { return RedisUrl::Parse(text).value(); }

// Two io threads: messages about the server are logged once, not once per thread.
class RedisFaults : public testing::Test {
 protected:
  RedisFaults() { threads_.Start(); }

  // Runs a check on each io thread; returns how they failed.
  std::vector<std::optional<StoreFailure>> CheckOnEach(RedisStore& store) {
    std::vector<std::optional<StoreFailure>> failures;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      BlockingCheck check({{"sluice:k", kMany}});
      check.deadline = SteadyNow() + seconds(1);
      failures.push_back(check.RunOn(store, threads_.loop(i)).failure());
    }
    return failures;
  }
  bool AllDecided(RedisStore& store) {
    const auto failures = CheckOnEach(store);
    return std::none_of(failures.begin(), failures.end(), [](auto& it) { return it.has_value(); });
  }

  net::IoThreads threads_{2};
};

// The connection is open, but the server does not answer.
TEST_F(RedisFaults, ServerHangs_ChecksFailAtOnceAndAreDecidedWithinASecondOfItsReturn) {
  RedisServer server;
  MetricsRegistry metrics;
  CapturedLog log;
  RedisStore store(threads_, Url(server.url()), {.metrics = &metrics});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  ASSERT_TRUE(WaitUntil(seconds(10), [&] { return AllDecided(store); }));
  auto quickest = SteadyTime::duration::max();
  for (int round = 0; round < 3; ++round) {
    server.Pause();
    const auto all_unreachable = [&] {
      const auto failures = CheckOnEach(store);
      return std::all_of(failures.begin(), failures.end(),
                         [](const auto& failure) { return failure == StoreFailure::kUnreachable; });
    };
    EXPECT_TRUE(WaitUntil(seconds(10), all_unreachable));
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(all_unreachable()) << "only probes wait for Redis";
    server.Resume();
    const SteadyTime resumed = SteadyNow();
    EXPECT_TRUE(WaitUntil(seconds(10), [&] { return AllDecided(store); }));
    quickest = std::min(quickest, SteadyNow() - resumed);
  }
  EXPECT_LE(quickest, seconds(1)) << "the best of three rounds, since the machine may be busy";
  EXPECT_NE(metrics.Render().find("sluice_redis_breaker_state 0"), std::string::npos);
  const std::string lines = log.text();
  EXPECT_GE(log.CountLines("breaker open"), 3) << lines;
  EXPECT_EQ(log.CountLines("breaker open"), log.CountLines("breaker closed")) << lines;
}

TEST_F(RedisFaults, UnsolicitedReply_IsLoggedAndTheStoreReconnects) {
  std::atomic<bool> talks = true;
  FakeRedis server([&](const RedisCommand& command) {
    const std::string answer = FakeRedis::AnswerLogin(command);
    return command[0] == "SCRIPT" && talks.exchange(false) ? answer + "+OK\r\n" : answer;
  });
  CapturedLog log;
  RedisStore store(threads_, Url(server.url()), {});
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return server.accepted() == 3; }));
  EXPECT_TRUE(store.WaitUntilReady(seconds(10)));
  const std::string lines = log.text();
  EXPECT_EQ(log.CountLines("a reply without a request"), 1) << lines;
}

TEST_F(RedisFaults, ServerRefusesWrites_IsLoggedOnceAndTheStoreReconnectsWithPauses) {
  const std::string wordings[] = {
      "-READONLY You can't write against a read only replica.\r\n",
      "-ERR Error running script (call to f_4d831abeb03d4bc5cc5dcd6e19e1860bd3292a19): "
      "@user_script:1317: @user_script: 1317: -READONLY You can't write against a read only "
      "replica.\r\n",
  };
  for (const std::string& wording : wordings) {
    FakeRedis server([&](const RedisCommand& command) {
      return command[0] == "EVALSHA" ? wording : FakeRedis::AnswerLogin(command);
    });
    CapturedLog log;
    RedisStore store(threads_, Url(server.url()), {});
    ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
    const SteadyTime end = SteadyNow() + seconds(1);
    while (SteadyNow() < end) EXPECT_FALSE(AllDecided(store));
    const std::string lines = log.text();
    EXPECT_EQ(log.CountLines("connected"), 1) << lines;
    EXPECT_EQ(log.CountLines("connection lost"), 1) << lines;
    EXPECT_EQ(log.CountLines("it is a replica"), 1) << lines;
    EXPECT_EQ(log.CountLines("answers checks with an error"), 0)
        << "the line about the replica says it already: " << lines;
    // Before it reconnects, each thread pauses for up to 10, 20, 40 … 400 ms. Half of each pause is
    // random.
    EXPECT_LE(server.accepted(), 2 * 14) << lines;
  }
}

// Redis gives the first answer if AUTH was renamed. Another server might give the other answers.
TEST_F(RedisFaults, AuthIsRefused_PasswordInTheAnswerIsNotLogged) {
  const struct {
    std::string answer;
    std::string_view told;
  } rows[] = {
      {"-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n", "refused: ERR "},
      {"-WRONGPASS not hunter2\r\n", "see user and password in redis.url, or redis.password_file"},
      {"-hunter2\r\n", "AUTH was refused: "},
  };
  const Secret password("hunter2");
  for (const auto& [answer, told] : rows) {
    FakeRedis server([&answer = answer](const RedisCommand& command) {
      return command[0] == "AUTH" ? answer : FakeRedis::AnswerLogin(command);
    });
    CapturedLog log;
    RedisStore store(threads_, Url(server.url()), {.password = &password});
    EXPECT_TRUE(WaitUntil(seconds(10), [&] { return log.CountLines("cannot connect") > 0; }));
    const std::string lines = log.text();
    EXPECT_EQ(lines.find("hunter2"), std::string::npos) << lines;
    EXPECT_EQ(log.CountLines(told), 1) << lines;
  }
}

TEST_F(RedisFaults, NameIsNotResolved_LogSaysWhichSettingToCheck) {
  CapturedLog log;
  redis::ServerStatus status("redis://nohost.invalid", 1);
  status.OnFailing("cannot connect", "cannot resolve nohost.invalid: unknown", SteadyNow());
  EXPECT_EQ(log.CountLines("; check the name in redis.url"), 1) << log.text();
  EXPECT_EQ(log.CountLines("accepts this server's login"), 0) << log.text();
}

TEST_F(RedisFaults, ReplyWithTooManyElements_ToALoginOrAReportOrALayoutQuery_IsRefused) {
  const struct {
    std::string url_prefix;
    std::string_view command;
  } rows[] = {{"redis://", "CLIENT"}, {"redis://", "EVAL"}, {"redis+cluster://", "CLUSTER"}};
  for (const auto& [prefix, asked] : rows) {
    FakeRedis server(
        [&asked = asked](const RedisCommand& command) {
          return command[0] == asked ? "*134217727\r\n" : FakeRedis::AnswerLogin(command);
        },
        FakeRedis::Listen::kTcp);
    CapturedLog log;
    RedisStore store(threads_, Url(prefix + "127.0.0.1:" + std::to_string(server.port())), {});
    store.JoinFleet([](const redis::FleetView&) {});
    EXPECT_TRUE(WaitUntil(seconds(10), [&] {
      return log.CountLines("a reply with more elements than expected") > 0;
    })) << asked;
    store.Stop();
  }
}

TEST_F(RedisFaults, ErrorOfTheServer_IsLoggedAsOneShortLineOfPlainCharacters) {
  const std::string says = "OOM \x1b[2J\nready\r\x7f\xc2\x9b" + std::string(5000, 'x');
  FakeRedis server([&](const RedisCommand& command) {
    return command[0] == "EVALSHA" ? "-" + says + "\r\n" : FakeRedis::AnswerLogin(command);
  });
  CapturedLog log;
  // With this timeout, no answer is late. Late answers would open the breaker before the errors do.
  RedisStore store(threads_, Url(server.url()), {.timeout = milliseconds(400)});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(AllDecided(store));
  const std::string lines = log.text();
  EXPECT_EQ(log.CountLines(R"(OOM \x1b[2J\x0aready\x0d\x7f\xc2\x9bxxx)"), 2)
      << "one line for the error, one for the breaker: " << lines;
  EXPECT_EQ(log.CountLines("ready\r"), 0) << lines;
  for (const std::string& line : log.Lines("OOM")) EXPECT_LT(line.size(), 600) << line;
}

TEST_F(RedisFaults, MasterBecomesAReplicaAndAMasterAgain_ChecksAreDecidedAgain) {
  RedisServer server;
  auto redis = server.Connect();
  CapturedLog log;
  RedisStore store(threads_, Url(server.url()), {.timeout = seconds(10)});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  EXPECT_TRUE(AllDecided(store));
  redis.Text({"REPLICAOF", "127.0.0.1", "1"});
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(AllDecided(store));
  redis.Text({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return AllDecided(store); }));
  const std::string lines = log.text();
  EXPECT_EQ(log.CountLines("connection lost"), 1) << lines;
  EXPECT_EQ(log.CountLines("connected"), 2) << lines;
}

TEST_F(RedisFaults, ServerDiesAndReturns_LossAndReturnAreLoggedOnce) {
  RedisServer server;
  CapturedLog log;
  RedisStore store(threads_, Url(server.url()), {});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  server.Kill();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] {
    const auto failures = CheckOnEach(store);
    return std::count(failures.begin(), failures.end(), StoreFailure::kUnreachable) == 2;
  }));
  server.Start();
  EXPECT_TRUE(store.WaitUntilReady(seconds(10)));
  const std::string lines = log.text();
  EXPECT_EQ(log.CountLines("connection lost"), 1) << lines;
  EXPECT_EQ(log.CountLines("connected"), 2) << lines;
}

// Resolving the name takes longer than the timeouts for connecting and for logging in.
TEST(RedisNames, SlowNameService_IsWaitedFor) {
  RedisServer server({.tcp = true});
  const Address address = Address::Parse(server.tcp_address()).value();
  Notification asked;
  Notification may_answer;
  std::atomic<int> questions = 0;
  net::IoThreads threads(2, [&](const Address&) {
    if (questions++ == 0) {
      asked.Notify();
      may_answer.Wait();
    }
    return Result(std::vector{net::Endpoint::FromNumeric(address).value()});
  });
  threads.Start();
  RedisStore store(threads, Url("redis://name.invalid:" + std::to_string(address.port)), {});
  asked.Wait();
  EXPECT_FALSE(store.WaitUntilReady(milliseconds(1200)));
  EXPECT_EQ(questions, 1);
  may_answer.Notify();
  EXPECT_TRUE(store.WaitUntilReady(seconds(10)));
  EXPECT_EQ(questions, 2) << "one for each connection: each answer was used";
}

// When the old server is killed, the name already resolves to the next one's address.
TEST(RedisNames, AddressChanges_ChecksGoToTheNewAddress) {
  RedisServer old({.tcp = true});
  const RedisServer next({.tcp = true});
  std::atomic<const RedisServer*> named = &old;
  net::IoThreads threads(1, [&](const Address&) {
    const Address address = Address::Parse(named.load()->tcp_address()).value();
    return Result(std::vector{net::Endpoint::FromNumeric(address).value()});
  });
  threads.Start();
  RedisStore store(threads, Url("redis://name.invalid"), {.timeout = seconds(1)});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  named = &next;
  old.Kill();
  auto counted = next.Connect();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] {
    BlockingCheck check({{"sluice:k", kMany}});
    return !check.RunOn(store, threads.loop(0)).failure() && counted.Calls("evalsha") > 0;
  }));
}

// The in-order checks of a batch share a counter. They are decided in order, although the script is
// flushed while they are in flight.
TEST(RedisScript, FlushedUnderLoad_OrderIsKept) {
  RedisServer server;
  auto redis = server.Connect();
  RedisStore store(Io(), Url(server.url()), {.timeout = seconds(10), .silence = minutes(1)});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  constexpr int kChecks = 400;
  for (int batch = 0; batch < 20; ++batch) {
    const std::string key = "sluice:k" + std::to_string(batch);
    const Limit limit = kMany;
    std::vector<std::unique_ptr<BlockingCheck>> checks;
    for (int i = 0; i < kChecks; ++i) {
      checks.push_back(std::make_unique<BlockingCheck>(
          std::vector<CounterSpec>{{key, limit}, {key + "-" + std::to_string(i), limit}}));
      checks.back()->in_order = true;
    }
    server.Pause();  // so that packs are in flight when the script is flushed
    for (int i = 0; i < kChecks; ++i) checks[i]->Start(store);
    server.Resume();
    redis.Text({"SCRIPT", "FLUSH"});
    for (int i = 0; i < kChecks; ++i) {
      BlockingCheck& check = checks[i]->Wait();
      ASSERT_FALSE(check.failure());
      ASSERT_EQ(check.counters[0].verdict.remaining, kMany.limit - 1 - i) << "batch " << batch;
    }
  }
}

TEST(RedisStop, ChecksInFlight_FailAtOnce) {
  RedisServer server;
  RedisStore store(Io(), Url(server.url()), {.silence = minutes(1)});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  server.Pause();
  BlockingCheck sent({{"sluice:k", kMany}}), gathered({{"sluice:l", kMany}}),
      late({{"sluice:m", kMany}});
  sent.Start(store);
  gathered.Start(store);
  BlockingReset reset({"sluice:k"});
  reset.Start(store);
  store.Stop();
  EXPECT_TRUE(sent.Wait().failure());
  EXPECT_TRUE(gathered.Wait().failure());
  EXPECT_EQ(reset.Wait(), StoreFailure::kTimeout);
  EXPECT_EQ(late.RunOn(store).failure(), StoreFailure::kUnreachable);
  server.Resume();
}

}  // namespace
}  // namespace sluice::test
