// What only the Redis store does: connections, deadlines, errors, packing.
#include "store/redis/redis_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
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

std::unique_ptr<RedisStore> Connect(const RedisServer& server,
                                    const RedisStore::Options& options = {}) {
  auto store = std::make_unique<RedisStore>(RedisUrl::Parse(server.url()).value(), options);
  EXPECT_TRUE(store->WaitUntilReady(seconds(10)));
  return store;
}

std::optional<StoreFailure> FailureOf(RedisStore& store, const std::string& key,
                                      Duration timeout = seconds(10)) {
  BlockingCheck check({{key, kTen}});
  check.deadline = SteadyNow() + timeout;
  return check.RunOn(store).failure;
}

// How many times a command has been called, by clients and by scripts.
std::int64_t Calls(RedisConnection& redis, const std::string& command) {
  const std::string stats = redis.Text({"INFO", "commandstats"});
  const std::string before = "cmdstat_" + command + ":calls=";
  const auto at = stats.find(before);
  return at == std::string::npos ? 0 : std::stoll(stats.substr(at + before.size()));
}

// How many times the check script has been called.
std::int64_t ScriptCalls(RedisConnection& redis) { return Calls(redis, "evalsha"); }

TEST(RedisStore, NoServer_FailsAtOnceAsUnreachable) {
  RedisStore store(RedisUrl::Parse("unix:///nowhere/redis.sock").value(), {});
  EXPECT_FALSE(store.WaitUntilReady(milliseconds(20)));
  EXPECT_EQ(FailureOf(store, "k"), StoreFailure::kUnreachable);
}

TEST(RedisStore, ServerHangs_FailsByTheDeadlineThenRecovers) {
  RedisServer server;
  auto store = Connect(server);
  server.Pause();
  const SteadyTime begin = SteadyNow();
  EXPECT_EQ(FailureOf(*store, "k", milliseconds(20)), StoreFailure::kTimeout);
  EXPECT_GE(SteadyNow() - begin, milliseconds(20));
  EXPECT_TRUE(WaitUntil(seconds(10), [&] {
    return FailureOf(*store, "k", milliseconds(20)) == StoreFailure::kUnreachable;
  })) << "a silent connection is given up";
  server.Resume();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return !FailureOf(*store, "k"); }));
}

// A check whose answer submits another.
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

TEST(RedisStore, CheckSubmittedByAnAnswer_IsNotLeftBehindWhenNothingElseHappens) {
  RedisServer server;
  std::atomic<bool> answered = false;
  auto store = Connect(server);
  ThenCheck second([&] { answered = true; });
  ThenCheck first([&] {
    second.deadline = SteadyNow() + milliseconds(20);
    store->Submit(second);
  });
  server.Pause();  // so that the first is answered by the timer, and no reply follows
  first.deadline = SteadyNow() + milliseconds(20);
  store->Submit(first);
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return answered.load(); }));
  server.Resume();
  ASSERT_TRUE(WaitUntil(seconds(10), [&] { return answered.load(); }));
}

TEST(RedisStore, ServerDies_FailsThenRecoversWithItsReturn) {
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
  for (int i = 0; i < 20; ++i) {
    redis.Text({"SCRIPT", "FLUSH"});
    EXPECT_FALSE(FailureOf(*store, "k"));
  }
  BlockingCheck check({{"k", kTen}}, 0, Mode::kPeek);
  EXPECT_EQ(check.RunOn(*store).counters[0].verdict.remaining, 0);
}

TEST(RedisStore, KeysOfForeignTypeOrFormat_FailOnlyTheirOwnChecks) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server);
  redis.Integer({"RPUSH", "list", "precious"});
  redis.Text({"SET", "text", "precious"});
  server.Pause();  // so that the three travel in one pack
  BlockingCheck opener({{"opener", kTen}}), list({{"list", kTen}}), text({{"text", kTen}}),
      good({{"good", kTen}});
  for (BlockingCheck* check : {&opener, &list, &text, &good}) {
    check->deadline = SteadyNow() + minutes(1);
    check->Start(*store);
  }
  server.Resume();
  EXPECT_EQ(list.Wait().failure, StoreFailure::kRejected);
  EXPECT_EQ(text.Wait().failure, StoreFailure::kRejected);
  EXPECT_FALSE(good.Wait().failure);
  opener.Wait();
  EXPECT_EQ(redis.Integer({"LLEN", "list"}), 1);
  EXPECT_EQ(redis.Text({"GET", "text"}), "precious");
}

TEST(RedisStore, OutOfMemory_IsRejectedAndWritesNothing) {
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

TEST(RedisStore, Reset_FailsAsChecksDo) {
  RedisServer server;
  auto store = Connect(server, {.loop = {.silence = minutes(1)}});
  EXPECT_EQ(ResetFailureOf(*store, -seconds(1)), StoreFailure::kTimeout);
  server.Pause();
  EXPECT_EQ(ResetFailureOf(*store, milliseconds(20)), StoreFailure::kTimeout);
  server.Resume();
  EXPECT_FALSE(ResetFailureOf(*store)) << "the late reply was taken for that of this reset";
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

TEST(RedisStore, MoreChecksThanMayWait_AreRefusedAtOnce) {
  RedisServer server;
  auto store = Connect(server, {.loop = {.max_pending = 5, .silence = minutes(1)}});
  server.Pause();
  std::vector<std::unique_ptr<BlockingCheck>> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.push_back(std::make_unique<BlockingCheck>(std::vector<CounterSpec>{{"k", kTen}}));
    waiting.back()->Start(*store);
  }
  EXPECT_EQ(FailureOf(*store, "k"), StoreFailure::kOverloaded);
  server.Resume();
  for (auto& check : waiting) EXPECT_FALSE(check->Wait().failure);
}

TEST(RedisStore, EqualChecksThatWait_GoAsOneAndAreAnsweredInOrder) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server, {.loop = {.silence = minutes(1)}});
  server.Pause();
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (int i = 0; i < 100; ++i) {
    checks.push_back(std::make_unique<BlockingCheck>(
        std::vector<CounterSpec>{{"k", FixedWindow{.limit = 70, .window = seconds(30)}}}));
    checks.back()->Start(*store);
  }
  server.Resume();
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(checks[i]->Wait().failure);
    EXPECT_EQ(checks[i]->admitted, i < 70);
    EXPECT_EQ(checks[i]->counters[0].verdict.remaining, std::max(0, 69 - i));
  }
  EXPECT_LE(ScriptCalls(redis), 4);
}

TEST(RedisStore, DifferentChecksThatWait_ArePacked) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server, {.loop = {.silence = minutes(1)}});
  server.Pause();
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (int i = 0; i < 200; ++i) {
    checks.push_back(
        std::make_unique<BlockingCheck>(std::vector<CounterSpec>{{"k" + std::to_string(i), kTen}}));
    checks.back()->Start(*store);
  }
  server.Resume();
  for (auto& check : checks) EXPECT_EQ(check->Wait().counters[0].verdict.remaining, 9);
  EXPECT_LE(ScriptCalls(redis), 2 + 200 / 64 + 2);
}

TEST(RedisStore, EveryKey_LivesAsLongAsItsStateMattersPlusASecond) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server);
  struct Row {
    std::string key;
    Limit limit;
    Duration lifetime;
  };
  const Row rows[] = {
      {"window", kTen, seconds(30)},
      {"bucket", TokenBucket{.rate = 1, .period = seconds(1), .burst = 100}, seconds(3)},
      {"empty", TokenBucket{.rate = 1, .period = seconds(1), .burst = 1, .starts_empty = true},
       minutes(60)},
  };
  for (const Row& row : rows) {
    BlockingCheck check({{row.key, row.limit}}, 3);
    check.RunOn(*store);
    const auto most = std::chrono::duration_cast<milliseconds>(row.lifetime).count() + 1000;
    EXPECT_LE(redis.Integer({"PTTL", row.key}), most) << row.key;
    EXPECT_GT(redis.Integer({"PTTL", row.key}), most - 1000) << row.key;
  }
}

// The stored entries of a log that begins anew are still there for the checks packed behind.
TEST(RedisStore, SlidingLogBegunAnewInAPack_CountsNothingFromBefore) {
  RedisServer server;
  ManualClock clock{Time(std::chrono::days(20'000))};
  auto store = Connect(server, {.loop = {.silence = minutes(1), .clock = &clock}});
  const Limit limit = SlidingLog{.limit = 3, .window = seconds(30)};
  EXPECT_TRUE(BlockingCheck({{"k", limit}}).RunOn(*store).admitted);
  clock.Advance(seconds(20));
  EXPECT_TRUE(BlockingCheck({{"k", limit}}).RunOn(*store).admitted);
  clock.Advance(seconds(10));
  BlockingCheck refund({{"k", limit}}, 1, Mode::kRefund);
  EXPECT_EQ(refund.RunOn(*store).counters[0].verdict.remaining, 3);

  server.Pause();
  BlockingCheck alone({{"other", limit}}), one({{"k", limit}}), two({{"k", limit}}, 2),
      three({{"k", limit}}, 3);
  for (BlockingCheck* check : {&alone, &one, &two, &three}) check->Start(*store);
  server.Resume();
  alone.Wait();
  EXPECT_EQ(one.Wait().counters[0].verdict.remaining, 2);
  EXPECT_EQ(two.Wait().counters[0].verdict.remaining, 0);
  EXPECT_FALSE(three.Wait().admitted);
}

// What is charged again is written in place as long as its key lives for long enough anyway.
TEST(RedisStore, ChargedAgain_LivesLongEnoughAndIsMostlyWrittenInPlace) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server);
  const Limit limits[] = {
      TokenBucket{.rate = 10, .period = seconds(1), .burst = 1000},
      FixedWindow{.limit = 1000, .window = seconds(30)},
      LeakyBucket{.rate = 10, .period = seconds(1), .queue = 1000},
      WarmingBucket{.rate = 100, .period = seconds(1), .warmup = seconds(1)},
      SlidingWindow{.limit = 1000, .window = seconds(30), .segments = 10},
  };
  constexpr int kChecks = 200;
  for (const Limit& limit : limits) {
    const std::string key = "k" + std::to_string(&limit - limits);
    SCOPED_TRACE(key);
    const std::int64_t in_place = Calls(redis, "setrange");
    const std::int64_t anew = Calls(redis, "set");
    BlockingCheck check({{key, limit}});
    check.max_wait = minutes(1);
    for (int i = 0; i < kChecks; ++i) {
      ASSERT_TRUE(check.RunOn(*store).admitted);
      const milliseconds ttl(redis.Integer({"PTTL", key}));
      const auto matters = check.counters[0].verdict.reset_after;
      ASSERT_GT(ttl, matters) << "after " << i;
      ASSERT_LE(ttl, seconds(13) + matters + matters / 4) << "after " << i;
    }
    EXPECT_EQ(Calls(redis, "setrange") - in_place + Calls(redis, "set") - anew, kChecks);
    EXPECT_LE(Calls(redis, "set") - anew, 4);
  }
}

// Else it would be written in place for too long. The number of the window's parts changes all the
// time, and with it the length of what is stored, which then is set anew.
TEST(RedisStore, CounterThatChangesItsLength_ExpiresWhenItSays) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server);
  BlockingCheck check(
      {{"k", SlidingWindow{.limit = 1000, .window = milliseconds(20), .segments = 10}}});
  std::set<std::size_t> lengths;
  EXPECT_TRUE(WaitUntil(seconds(10), [&] {
    check.RunOn(*store);
    const std::string value = redis.Text({"GET", "k"});
    std::int64_t says = 0;
    for (const int byte : {3, 2, 1}) says = 256 * says + static_cast<std::uint8_t>(value[byte]);
    const auto ttl = redis.Integer({"TTL", "k"});
    const auto now = std::stoll(redis.Text({"EVAL", "return redis.call('TIME')[1]", "0"}));
    EXPECT_NEAR(static_cast<double>((now + ttl) % (1 << 24)), static_cast<double>(says), 1);
    // Only what has been charged in another second than it began in is kept for longer.
    if (ttl > 3) lengths.insert(value.size());
    return lengths.size() >= 5 || testing::Test::HasFailure();
  }));
}

// As if its key had been made to persist, or Redis' clock had jumped between two commands.
TEST(RedisStore, CounterWhoseExpiryHasPassed_IsGivenAnotherOne) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server);
  BlockingCheck check({{"k", kTen}});
  check.RunOn(*store);
  std::string value = redis.Text({"GET", "k"});
  const auto now = std::stoll(redis.Text({"EVAL", "return redis.call('TIME')[1]", "0"}));
  for (const int byte : {0, 1, 2}) {
    value[1 + byte] = static_cast<char>((now - 5) >> (8 * byte) & 0xff);
  }
  redis.Text({"SET", "k", value});
  EXPECT_EQ(check.RunOn(*store).counters[0].verdict.remaining, 8);
  EXPECT_GT(redis.Integer({"TTL", "k"}), 0);
}

// One bad counter in a pack is one failed check, whatever the others are.
TEST(RedisStore, CountersThatAreNone_FailTheirChecksAlone) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server, {.loop = {.silence = minutes(1)}});
  BlockingCheck first({{"existing", kTen}});
  EXPECT_EQ(first.RunOn(*store).counters[0].verdict.remaining, 9);
  redis.Integer({"RPUSH", "list", "theirs"});
  redis.Text({"SET", "text", "theirs"});

  server.Pause();
  BlockingCheck alone({{"other", kTen}}), existing({{"existing", kTen}}), list({{"list", kTen}}),
      anew({{"anew", kTen}}), both({{"anew", kTen}, {"text", kTen}}), text({{"text", kTen}}),
      last({{"existing", kTen}}, 2);
  for (BlockingCheck* check : {&alone, &existing, &list, &anew, &both, &text, &last}) {
    check->Start(*store);
  }
  server.Resume();
  alone.Wait();
  EXPECT_EQ(existing.Wait().counters[0].verdict.remaining, 8);
  EXPECT_EQ(list.Wait().failure, StoreFailure::kRejected);
  EXPECT_EQ(anew.Wait().counters[0].verdict.remaining, 9);
  EXPECT_EQ(both.Wait().failure, StoreFailure::kRejected);
  EXPECT_EQ(text.Wait().failure, StoreFailure::kRejected);
  EXPECT_EQ(last.Wait().counters[0].verdict.remaining, 6);
  EXPECT_EQ(first.RunOn(*store).counters[0].verdict.remaining, 5);
  EXPECT_EQ(BlockingCheck({{"anew", kTen}}).RunOn(*store).counters[0].verdict.remaining, 8);
  EXPECT_EQ(redis.Text({"GET", "text"}), "theirs");
}

// Written by Sluice before a counter knew when its key expires.
TEST(RedisStore, CounterOfFormat1_CountsOn) {
  RedisServer server;
  auto redis = server.Connect();
  auto store = Connect(server);
  const auto write = [&](const std::string& key, std::initializer_list<double> numbers) {
    std::string value(1, 1);
    for (const double number : numbers) {
      value.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    redis.Text({"SET", key, value, "EX", "60"});
  };
  const auto now =
      static_cast<double>(std::stoll(redis.Text({"EVAL", "return redis.call('TIME')[1]", "0"}))) *
      1e6;
  write("window", {now, 7, now});
  write("sliding", {now, now, 4});
  write("three numbers in a place for two", {now, 7, now});

  BlockingCheck window({{"window", kTen}}, 2);
  for (const std::int64_t remaining : {1, 1}) {
    EXPECT_EQ(window.RunOn(*store).counters[0].verdict.remaining, remaining);
  }
  EXPECT_FALSE(window.admitted);
  BlockingCheck sliding(
      {{"sliding", SlidingWindow{.limit = 10, .window = seconds(30), .segments = 10}}}, 2);
  EXPECT_EQ(sliding.RunOn(*store).counters[0].verdict.remaining, 4);
  BlockingCheck bucket({{"three numbers in a place for two",
                         TokenBucket{.rate = 1, .period = seconds(1), .burst = 100}}});
  EXPECT_EQ(bucket.RunOn(*store).failure, StoreFailure::kRejected);
}

TEST(RedisStore, DeniedAndPeeked_WriteNothing) {
  RedisServer server;
  auto store = Connect(server);
  BlockingCheck denied({{"k", kTen}}, 11), peeked({{"k", kTen}}, 1, Mode::kPeek);
  EXPECT_FALSE(denied.RunOn(*store).admitted);
  EXPECT_TRUE(peeked.RunOn(*store).admitted);
  EXPECT_TRUE(server.Connect().Keys().empty());
}

}  // namespace
}  // namespace sluice::test
