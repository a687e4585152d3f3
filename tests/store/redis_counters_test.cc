// Counters in Redis: the values of their keys, their expiry, and keys with unexpected values.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/store/store_test.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr FixedWindow kTen{.limit = 10, .window = seconds(30)};

// A store on Redis' own clock. It logs in as the user in docs/redis.md, so all keys must begin with
// "sluice:".
class RedisCounters : public testing::Test {
 protected:
  std::unique_ptr<RedisStore> Connect(const RedisStore::Options& options) const {
    const std::string url = "unix://sluice:secret@" + server_.socket_path();
    auto store = std::make_unique<RedisStore>(Io(), RedisUrl::Parse(url).value(), options);
    EXPECT_TRUE(store->WaitUntilReady(seconds(10)));
    return store;
  }

  // Redis' time in seconds since the epoch.
  std::int64_t Now() {
    return std::stoll(redis_.Text({"EVAL", "return redis.call('TIME')[1]", "0"}));
  }

  RedisServer server_{{.arguments = UserOfTheManual()}};
  RedisConnection redis_ = server_.Connect();
  const std::unique_ptr<RedisStore> store_ =
      Connect({.timeout = minutes(1), .silence = minutes(1)});
};

TEST_F(RedisCounters, Key_LivesUpToASecondLongerThanItsStateMatters) {
  struct Row {
    std::string key;
    Limit limit;
    Duration lifetime;
  };
  const Row rows[] = {
      {"sluice:window", kTen, seconds(30)},
      {"sluice:bucket", TokenBucket{.rate = 1, .period = seconds(1), .burst = 100}, seconds(3)},
      {"sluice:empty",
       TokenBucket{.rate = 1, .period = seconds(1), .burst = 1, .starts_empty = true}, minutes(60)},
  };
  for (const Row& row : rows) {
    BlockingCheck check({{row.key, row.limit}}, 3);
    check.RunOn(*store_);
    const auto most = std::chrono::duration_cast<milliseconds>(row.lifetime).count() + 1000;
    EXPECT_LE(redis_.Integer({"PTTL", row.key}), most) << row.key;
    EXPECT_GT(redis_.Integer({"PTTL", row.key}), most - 1000) << row.key;
  }
}

// If a counter is charged again, it is overwritten in place as long as its key lives long enough.
TEST_F(RedisCounters, CounterChargedAgain_LivesLongEnoughAndIsMostlyWrittenInPlace) {
  const Limit limits[] = {
      TokenBucket{.rate = 10, .period = seconds(1), .burst = 1000},
      FixedWindow{.limit = 1000, .window = seconds(30)},
      LeakyBucket{.rate = 10, .period = seconds(1), .queue = 1000},
      WarmingBucket{.rate = 100, .period = seconds(1), .warmup = seconds(1)},
      SlidingWindow{.limit = 1000, .window = seconds(30), .segments = 10},
  };
  constexpr int kChecks = 200;
  for (const Limit& limit : limits) {
    const std::string key = "sluice:k" + std::to_string(&limit - limits);
    SCOPED_TRACE(key);
    const std::int64_t in_place = redis_.Calls("setrange");
    const std::int64_t anew = redis_.Calls("set");
    BlockingCheck check({{key, limit}});
    check.demand.max_wait = minutes(1);
    for (int i = 0; i < kChecks; ++i) {
      ASSERT_TRUE(check.RunOn(*store_).admitted);
      const milliseconds ttl(redis_.Integer({"PTTL", key}));
      const auto matters = check.counters[0].verdict.reset_after;
      ASSERT_GT(ttl, matters) << "after " << i;
      ASSERT_LE(ttl, seconds(13) + matters + matters / 4) << "after " << i;
    }
    EXPECT_EQ(redis_.Calls("setrange") - in_place + redis_.Calls("set") - anew, kChecks);
    EXPECT_LE(redis_.Calls("set") - anew, 4);
  }
}

struct RateChange {
  std::string key;
  Limit before;
  Limit after;
  // After `before` has charged 99 units, `after` needs the key for at least this long.
  Duration lifetime;
};

// In each change, the new limit needs the counter for longer than the old limit does.
std::vector<RateChange> RateChanges() {
  const TokenBucket tokens{.rate = 100, .period = seconds(1), .burst = 100};
  TokenBucket slower = tokens, larger = tokens, empty = tokens;
  slower.rate = 1;
  larger.burst = 10'000;
  empty.starts_empty = true;
  const WarmingBucket warming{.rate = 100, .period = seconds(1), .warmup = seconds(1)};
  return {
      {"sluice:slower", tokens, slower, seconds(98)},
      {"sluice:larger", tokens, larger, seconds(98)},
      {"sluice:empty", tokens, empty, minutes(60)},
      {"sluice:leaky", LeakyBucket{.rate = 100, .period = seconds(1), .queue = 99},
       LeakyBucket{.rate = 1, .period = seconds(1), .queue = 99}, seconds(98)},
      {"sluice:warming", warming,
       WarmingBucket{.rate = 100, .period = seconds(1), .warmup = seconds(60)}, seconds(60)},
  };
}

// The key is kept in all these cases: the new limit denies the check, another limit denies it, or
// the check takes nothing.
TEST_F(RedisCounters, RateChanged_CheckOfTheNewRate_KeepsTheKeyWhileItMatters) {
  const CounterSpec full{"sluice:full", FixedWindow{.limit = 1, .window = minutes(60)}};
  BlockingCheck({full}).RunOn(*store_);
  struct Row {
    std::string what;
    std::int64_t cost;
    Mode mode;
    bool with_full;
  };
  const Row rows[] = {{" denied", 200, Mode::kConsume, false},
                      {" denied by another", 1, Mode::kConsume, true},
                      {" of no cost", 0, Mode::kConsume, false},
                      {" peek", 1, Mode::kPeek, false}};
  for (const RateChange& change : RateChanges()) {
    for (const Row& row : rows) {
      const std::string key = change.key + row.what;
      SCOPED_TRACE(key);
      BlockingCheck({{key, change.before}}, 99).RunOn(*store_);
      std::vector<CounterSpec> counters{{key, change.after}};
      if (row.with_full) counters.push_back(full);
      BlockingCheck(counters, row.cost, row.mode).RunOn(*store_);
      EXPECT_GT(milliseconds(redis_.Integer({"PTTL", key})), change.lifetime);
      BlockingCheck({{key, change.before}}, 1, Mode::kCharge).RunOn(*store_);
      EXPECT_GT(milliseconds(redis_.Integer({"PTTL", key})), change.lifetime);
      const std::int64_t written = redis_.Calls("set");
      BlockingCheck(counters, row.cost, row.mode).RunOn(*store_);
      EXPECT_EQ(redis_.Calls("set"), written) << "the key already lives long enough";
    }
  }
}

TEST_F(RedisCounters, TwoRatesInAPack_KeepTheKeyWhileItMattersToEither) {
  for (const RateChange& change : RateChanges()) {
    for (const bool reversed : {false, true}) {
      const std::string key = change.key + (reversed ? " reversed" : " in order");
      SCOPED_TRACE(key);
      BlockingCheck alone({{"sluice:other", kTen}}), before({{key, change.before}}, 90),
          after({{key, change.after}});
      server_.Pause();
      alone.Start(*store_);
      (reversed ? after : before).Start(*store_);
      (reversed ? before : after).Start(*store_);
      server_.Resume();
      for (BlockingCheck* check : {&alone, &before, &after}) check->Wait();
      const milliseconds ttl(redis_.Integer({"PTTL", key}));
      EXPECT_GE(ttl, after.counters[0].verdict.reset_after);
    }
  }
}

// If the expiry in the value were wrong, the counter would be overwritten in place for too long.
// The number of sub-windows changes often, and with it the length of the value. A value whose
// length changes is not overwritten in place, but set again.
TEST_F(RedisCounters, CounterThatChangesItsLength_ExpiresAtTheTimeInItsValue) {
  BlockingCheck check(
      {{"sluice:k", SlidingWindow{.limit = 1000, .window = milliseconds(20), .segments = 10}}});
  std::set<std::size_t> lengths;
  EXPECT_TRUE(WaitUntil(seconds(10), [&] {
    check.RunOn(*store_);
    const std::string value = redis_.Text({"GET", "sluice:k"});
    std::int64_t says = 0;
    for (const int byte : {3, 2, 1}) says = 256 * says + static_cast<std::uint8_t>(value[byte]);
    const auto ttl = redis_.Integer({"TTL", "sluice:k"});
    const auto now = Now();
    EXPECT_NEAR(static_cast<double>((now + ttl) % (1 << 24)), static_cast<double>(says), 1);
    // Only the key of a counter that was charged again gets more than 3 s.
    if (ttl > 3) lengths.insert(value.size());
    return lengths.size() >= 5 || testing::Test::HasFailure();
  }));
}

// A grant makes the value longer, so the value is not overwritten in place. The first limit still
// needs the state for as long as before.
TEST_F(RedisCounters, AnotherRateTakesAGrant_TheKeyLivesAsLongAsBefore) {
  BlockingCheck slow({{"sluice:k", TokenBucket{.rate = 1, .period = seconds(1), .burst = 1000}}},
                     900);
  slow.RunOn(*store_);
  const auto lived = redis_.Integer({"PTTL", "sluice:k"});
  EXPECT_GT(lived, 895'000);
  BlockingCheck fast({{"sluice:k", TokenBucket{.rate = 100, .period = seconds(1), .burst = 100}}});
  fast.concerns_grants = true;
  fast.counters[0].wanted = {.units = 5, .life = milliseconds(100)};
  fast.RunOn(*store_);
  EXPECT_EQ(fast.counters[0].grant.units, 5);
  EXPECT_GT(redis_.Integer({"PTTL", "sluice:k"}), lived - 5'000);
}

// A key can outlive the expiry in its value: after PERSIST, or if Redis' clock jumps.
TEST_F(RedisCounters, CounterWhoseExpiryHasPassed_GetsANewExpiry) {
  BlockingCheck check({{"sluice:k", kTen}});
  check.RunOn(*store_);
  std::string value = redis_.Text({"GET", "sluice:k"});
  const auto now = Now();
  for (const int byte : {0, 1, 2}) {
    value[1 + byte] = static_cast<char>((now - 5) >> (8 * byte) & 0xff);
  }
  redis_.Text({"SET", "sluice:k", value});
  EXPECT_EQ(check.RunOn(*store_).counters[0].verdict.remaining, 8);
  EXPECT_GT(redis_.Integer({"TTL", "sluice:k"}), 0);
}

// The counters were written by a version of Sluice that did not store the expiry in them.
TEST_F(RedisCounters, CounterOfFormat1_ContinuesToCount) {
  const auto write = [&](const std::string& key, std::initializer_list<double> numbers) {
    std::string value(1, 1);
    for (const double number : numbers) {
      value.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    redis_.Text({"SET", key, value, "EX", "60"});
  };
  const auto now = 1e6 * static_cast<double>(Now());
  write("sluice:window", {now, 7, now});
  write("sluice:sliding", {now, now, 4});
  write("sluice:three numbers in a place for two", {now, 7, now});

  BlockingCheck window({{"sluice:window", kTen}}, 2);
  for (const std::int64_t remaining : {1, 1}) {
    EXPECT_EQ(window.RunOn(*store_).counters[0].verdict.remaining, remaining);
  }
  EXPECT_FALSE(window.admitted);
  BlockingCheck sliding(
      {{"sluice:sliding", SlidingWindow{.limit = 10, .window = seconds(30), .segments = 10}}}, 2);
  EXPECT_EQ(sliding.RunOn(*store_).counters[0].verdict.remaining, 4);
  BlockingCheck bucket({{"sluice:three numbers in a place for two",
                         TokenBucket{.rate = 1, .period = seconds(1), .burst = 100}}});
  EXPECT_EQ(bucket.RunOn(*store_).failure(), StoreFailure::kCounterRejected);
}

// One bad counter in a pack fails only its own check.
TEST_F(RedisCounters, KeysOfForeignTypeOrFormat_FailOnlyTheirOwnChecks) {
  BlockingCheck first({{"sluice:existing", kTen}});
  EXPECT_EQ(first.RunOn(*store_).counters[0].verdict.remaining, 9);
  redis_.Integer({"RPUSH", "sluice:list", "theirs"});
  redis_.Text({"SET", "sluice:text", "theirs"});

  server_.Pause();
  BlockingCheck alone({{"sluice:other", kTen}}), existing({{"sluice:existing", kTen}}),
      list({{"sluice:list", kTen}}), anew({{"sluice:anew", kTen}}),
      both({{"sluice:anew", kTen}, {"sluice:text", kTen}}), text({{"sluice:text", kTen}}),
      last({{"sluice:existing", kTen}}, 2);
  for (BlockingCheck* check : {&alone, &existing, &list, &anew, &both, &text, &last}) {
    check->Start(*store_);
  }
  server_.Resume();
  alone.Wait();
  EXPECT_EQ(existing.Wait().counters[0].verdict.remaining, 8);
  EXPECT_EQ(list.Wait().failure(), StoreFailure::kCounterRejected);
  EXPECT_EQ(anew.Wait().counters[0].verdict.remaining, 9);
  EXPECT_EQ(both.Wait().failure(), StoreFailure::kCounterRejected);
  EXPECT_EQ(text.Wait().failure(), StoreFailure::kCounterRejected);
  EXPECT_EQ(last.Wait().counters[0].verdict.remaining, 6);
  EXPECT_EQ(first.RunOn(*store_).counters[0].verdict.remaining, 5);
  EXPECT_EQ(BlockingCheck({{"sluice:anew", kTen}}).RunOn(*store_).counters[0].verdict.remaining, 8);
  EXPECT_EQ(redis_.Integer({"LLEN", "sluice:list"}), 1);
  EXPECT_EQ(redis_.Text({"GET", "sluice:text"}), "theirs");
}

// When a log restarts, its old entries are still stored while later checks of the pack are decided.
TEST_F(RedisCounters, SlidingLogRestartsInAPack_CountsNoOldUnits) {
  ManualClock clock(kStart);
  const auto store = Connect({.timeout = minutes(1), .silence = minutes(1), .clock = &clock});
  const Limit limit = SlidingLog{.limit = 3, .window = seconds(30)};
  EXPECT_TRUE(BlockingCheck({{"sluice:k", limit}}).RunOn(*store).admitted);
  clock.Advance(seconds(20));
  EXPECT_TRUE(BlockingCheck({{"sluice:k", limit}}).RunOn(*store).admitted);
  clock.Advance(seconds(10));
  BlockingCheck refund({{"sluice:k", limit}}, 1, Mode::kRefund);
  EXPECT_EQ(refund.RunOn(*store).counters[0].verdict.remaining, 3);

  server_.Pause();
  BlockingCheck alone({{"sluice:other", limit}}), one({{"sluice:k", limit}}),
      two({{"sluice:k", limit}}, 2), three({{"sluice:k", limit}}, 3);
  for (BlockingCheck* check : {&alone, &one, &two, &three}) check->Start(*store);
  server_.Resume();
  alone.Wait();
  EXPECT_EQ(one.Wait().counters[0].verdict.remaining, 2);
  EXPECT_EQ(two.Wait().counters[0].verdict.remaining, 0);
  EXPECT_FALSE(three.Wait().admitted);
}

// If expired slots were not removed, a counter that always has a holder would grow with every lease
// that expires.
TEST_F(RedisCounters, ExpiredSlots_AreRemovedWhileOthersAreHeld) {
  ManualClock clock(kStart);
  const auto store = Connect({.timeout = minutes(1), .silence = minutes(1), .clock = &clock});
  const Concurrency limit{.limit = 1000, .ttl = minutes(60)};
  BlockingCheck holder({{"sluice:k", limit}});
  holder.lease = MakeLease(1, minutes(60));
  EXPECT_TRUE(holder.RunOn(*store).admitted);
  constexpr int kSlots = 200;
  for (int i = 0; i < 10; ++i) {
    BlockingCheck crashes({{"sluice:k", limit}}, kSlots);
    crashes.lease = MakeLease(static_cast<std::uint8_t>(2 + i), seconds(1));
    EXPECT_EQ(crashes.RunOn(*store).counters[0].verdict.remaining, 999 - kSlots);
    clock.Advance(seconds(1));
  }
  EXPECT_LE(redis_.Integer({"ZCARD", "sluice:k"}), 2 * kSlots);
}

// A Lua call in Redis can pass at most about 8,000 values, so the script passes longer lists in
// pieces.
TEST_F(RedisCounters, CheckOfThousandsOfCounters_IsDecided) {
  const auto store = Connect({.timeout = seconds(10), .silence = minutes(1)});
  constexpr std::size_t kCounters = 4'500;
  const auto limit_of = [](std::size_t i) { return static_cast<std::int64_t>(10 + i % 7); };
  std::vector<CounterSpec> counters;
  for (std::size_t i = 0; i < kCounters; ++i) {
    counters.push_back({.key = "sluice:" + std::to_string(i),
                        .limit = FixedWindow{.limit = limit_of(i), .window = minutes(60)}});
  }
  BlockingCheck check(counters, 4);
  for (const std::int64_t taken : {4, 8, 8}) {
    ASSERT_FALSE(check.RunOn(*store).failure());
    for (std::size_t i = 0; i < kCounters; ++i) {
      ASSERT_EQ(check.counters[i].verdict.remaining, limit_of(i) - taken) << i;
    }
  }
  EXPECT_FALSE(check.admitted);
}

TEST_F(RedisCounters, DeniedChecksAndPeeks_WriteNothing) {
  BlockingCheck denied({{"sluice:k", kTen}}, 11), peeked({{"sluice:k", kTen}}, 1, Mode::kPeek);
  EXPECT_FALSE(denied.RunOn(*store_).admitted);
  EXPECT_TRUE(peeked.RunOn(*store_).admitted);
  EXPECT_TRUE(redis_.Keys().empty());
}

}  // namespace
}  // namespace sluice::test
