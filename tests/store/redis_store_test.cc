// Features that only the Redis store has: connections, deadlines, errors.
#include "store/redis/redis_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/store/blocking_check.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr FixedWindow kTen{.limit = 10, .window = seconds(30)};

// A long timeout, so that no breaker opens on a busy machine.
const RedisStore::Options kPatient{.timeout = seconds(10)};

std::unique_ptr<RedisStore> Connect(const RedisServer& server,
                                    const RedisStore::Options& options = kPatient) {
  auto store = std::make_unique<RedisStore>(Io(), RedisUrl::Parse(server.url()).value(), options);
  EXPECT_TRUE(store->WaitUntilReady(seconds(10)));
  return store;
}

std::optional<StoreFailure> FailureOf(RedisStore& store, const std::string& key,
                                      Duration timeout = seconds(10)) {
  BlockingCheck check({{key, kTen}});
  check.deadline = SteadyNow() + timeout;
  return check.RunOn(store).failure();
}

TEST(RedisStore, NoServer_ChecksFailAtOnceAsUnreachable) {
  RedisStore store(Io(), RedisUrl::Parse("unix:///nowhere/redis.sock").value(), {});
  EXPECT_FALSE(store.WaitUntilReady(milliseconds(20)));
  EXPECT_EQ(FailureOf(store, "k"), StoreFailure::kUnreachable);
}

TEST(RedisStore, ServerHangs_ChecksFailAtTheDeadlineThenTheStoreRecovers) {
  RedisServer server;
  auto store = Connect(server, {});
  server.Pause();
  const SteadyTime begin = SteadyNow();
  EXPECT_EQ(FailureOf(*store, "k", milliseconds(20)), StoreFailure::kTimeout);
  EXPECT_GE(SteadyNow() - begin, milliseconds(20));
  EXPECT_TRUE(WaitUntil(seconds(10), [&] {
    return FailureOf(*store, "k", milliseconds(20)) == StoreFailure::kUnreachable;
  })) << "the store gives up a silent connection";
  server.Resume();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return !FailureOf(*store, "k"); }));
}

// A check that calls a function when it is answered.
class ThenCheck final : public StoreCheck {
 public:
  explicit ThenCheck(std::function<void()> then) : then_(std::move(then)) {
    counters.push_back({.key = "k", .limit = &limit_, .verdict = {}});
  }

 private:
  void OnDecided() override { then_(); }

  const Limit limit_ = kTen;
  const std::function<void()> then_;
};

TEST(RedisStore, CheckSubmittedWithinAnAnswer_IsAnsweredWithoutFurtherEvents) {
  RedisServer server;
  std::atomic<bool> answered = false;
  auto store = Connect(server);
  ThenCheck second([&] { answered = true; });
  ThenCheck first([&] {
    second.deadline = SteadyNow() + milliseconds(20);
    store->Submit(second);
  });
  server.Pause();  // so that a timer answers the first check, and no reply arrives
  first.deadline = SteadyNow() + milliseconds(20);
  Io().loop(0).Post([&] { store->Submit(first); });
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return answered.load(); }));
  server.Resume();
  ASSERT_TRUE(WaitUntil(seconds(10), [&] { return answered.load(); }));
}

TEST(RedisStore, ServerDies_ChecksFailUntilItReturns) {
  RedisServer server;
  auto store = Connect(server);
  EXPECT_FALSE(FailureOf(*store, "k"));
  server.Kill();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return FailureOf(*store, "k").has_value(); }));
  server.Start();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return !FailureOf(*store, "k"); }));
}

TEST(RedisStore, ScriptFlushed_LosesNoCheck) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server);
  for (int taken = 1; taken <= 10; ++taken) {
    redis.Text({"SCRIPT", "FLUSH"});
    EXPECT_FALSE(FailureOf(*store, "k"));
    BlockingCheck check({{"k", kTen}}, 0, Mode::kPeek);
    EXPECT_EQ(check.RunOn(*store).counters[0].verdict.remaining, 10 - taken);
  }
}

TEST(RedisStore, OutOfMemory_CheckIsRejectedAndWritesNothing) {
  RedisServer server({.arguments = {"--maxmemory", "1", "--maxmemory-policy", "noeviction"}});
  auto store = Connect(server);
  EXPECT_EQ(FailureOf(*store, "k"), StoreFailure::kRejected);
  EXPECT_TRUE(server.Connect().Keys().empty());
}

std::optional<StoreFailure> ResetFailureOf(RedisStore& store, Duration timeout = seconds(10)) {
  BlockingReset reset({"k", "l"});
  reset.deadline = SteadyNow() + timeout;
  return reset.RunOn(store);
}

TEST(RedisStore, Reset_FailsLikeChecks) {
  RedisServer server;
  auto store = Connect(server, {.timeout = minutes(1), .silence = minutes(1)});
  EXPECT_EQ(ResetFailureOf(*store, -seconds(1)), StoreFailure::kTimeout);
  server.Pause();
  EXPECT_EQ(ResetFailureOf(*store, milliseconds(20)), StoreFailure::kTimeout);
  server.Resume();
  EXPECT_FALSE(ResetFailureOf(*store)) << "the late reply was taken for the reply to this reset";
  server.Kill();
  EXPECT_TRUE(
      WaitUntil(seconds(10), [&] { return ResetFailureOf(*store) == StoreFailure::kUnreachable; }));
}

TEST(RedisStore, Reset_RefusedByRedis_IsRejectedAndChecksGoOn) {
  RedisServer server({.arguments = {"--rename-command", "UNLINK", ""}});
  auto store = Connect(server);
  EXPECT_EQ(ResetFailureOf(*store), StoreFailure::kRejected);
  EXPECT_FALSE(FailureOf(*store, "k"));
}

TEST(RedisStore, TwoIoThreads_ShareACounterExactly) {
  net::IoThreads threads(2);
  threads.Start();
  RedisServer server;
  RedisStore store(threads, RedisUrl::Parse(server.url()).value(),
                   {.timeout = minutes(1), .silence = minutes(1)});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  const CounterSpec counter{"k", FixedWindow{.limit = 700, .window = seconds(30)}};
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (int i = 0; i < 1000; ++i) {
    checks.push_back(std::make_unique<BlockingCheck>(&counter));
    checks.back()->Start(store, threads.loop(i % 2));
  }
  int admitted = 0;
  for (auto& check : checks) {
    EXPECT_FALSE(check->Wait().failure());
    admitted += check->admitted ? 1 : 0;
  }
  EXPECT_EQ(admitted, 700);
}

TEST(RedisStore, MoreChecksThanMayWait_TheExcessIsRefusedAtOnce) {
  RedisServer server;
  auto store = Connect(server, {.max_pending = 5, .timeout = minutes(1), .silence = minutes(1)});
  server.Pause();
  std::vector<std::unique_ptr<BlockingCheck>> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.push_back(std::make_unique<BlockingCheck>(std::vector<CounterSpec>{{"k", kTen}}));
    waiting.back()->Start(*store);
  }
  EXPECT_EQ(FailureOf(*store, "k"), StoreFailure::kOverloaded);
  server.Resume();
  for (auto& check : waiting) EXPECT_FALSE(check->Wait().failure());
}

}  // namespace
}  // namespace sluice::test
