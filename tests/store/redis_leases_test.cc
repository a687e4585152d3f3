// Leases of units when Redis fails or changes: slots move while a lease is open, Redis is
// unavailable, replies are late. Each settlement is applied once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "store/redis/redis_store.h"
#include "store/redis/slot.h"
#include "tests/store/blocking_check.h"
#include "tests/store/raw_redis.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_sentinels.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr FixedWindow kWindow{.limit = 1'000'000, .window = hours(1)};
constexpr seconds kPatience(60);

Lease LeaseOf(std::uint32_t number, Duration ttl = minutes(10)) {
  Lease lease{.ttl = ttl};
  std::memcpy(lease.id.data(), &number, sizeof number);
  return lease;
}

std::unique_ptr<BlockingCheck> Make(const std::vector<CounterSpec>& specs, std::uint32_t lease,
                                    Mode mode, std::int64_t units) {
  auto check = std::make_unique<BlockingCheck>(specs, units, mode);
  check->lease = LeaseOf(lease);
  check->leases_units = true;
  return check;
}

std::unique_ptr<RedisStore> Connect(const std::string& url, RedisStore::Options options = {}) {
  if (options.timeout == RedisStore::Options{}.timeout) {
    options.timeout = options.silence = kPatience;
  }
  auto store = std::make_unique<RedisStore>(Io(), RedisUrl::Parse(url).value(), options);
  EXPECT_TRUE(store->WaitUntilReady(kPatience));
  return store;
}

std::int64_t Used(Store& store, const std::string& key) {
  BlockingCheck peek({{key, kWindow}}, 0, Mode::kPeek);
  EXPECT_FALSE(peek.RunOn(store).failure());
  return kWindow.limit - peek.counters[0].verdict.remaining;
}

// A key whose slot is `slot`.
std::string KeyIn(std::size_t slot, const std::string& suffix = "") {
  for (int i = 0;; ++i) {
    const std::string tag = "{" + std::to_string(i) + "}";
    if (redis::SlotOf(tag) == slot) return "sluice:" + tag + ":" + suffix;
  }
}

class LeaseInMovingSlot : public testing::Test {
 protected:
  static constexpr std::uint16_t kSlot = 1;

  void MigrateOnly(const std::string& key) {
    cluster_.node(0).Connect().Text(
        {"MIGRATE", "127.0.0.1", std::to_string(cluster_.node(1).port()), key, "0", "5000"});
  }
  void FinishMove() {
    while (cluster_.MoveKeys(kSlot, 1) > 0) {
    }
    cluster_.FinishMove(kSlot, 1);
  }
  std::string RecordOf(std::uint32_t lease) const {
    const std::string tag(redis::HashedPart(key_));
    return fmt::format("sluice:{{{}}}:lease:{:02x}", tag, fmt::join(LeaseOf(lease).id, ""));
  }

  RedisCluster cluster_{{.masters = 2}};
  const std::string key_ = KeyIn(kSlot, "k");
  const std::vector<CounterSpec> specs_{{key_, kWindow}};
  std::unique_ptr<RedisStore> store_ = Connect(cluster_.Url());
};

// If the keys of records were not declared, the old node would treat a moved record as absent.
TEST_F(LeaseInMovingSlot, RecordMovesBeforeItsCounter_IsSettledWhenBothHaveMoved) {
  EXPECT_TRUE(Make(specs_, 1, Mode::kConsume, 500)->RunOn(*store_).admitted);
  EXPECT_TRUE(Make(specs_, 2, Mode::kConsume, 500)->RunOn(*store_).admitted);
  cluster_.BeginMove(kSlot, 1);
  MigrateOnly(RecordOf(1));
  const auto moved = Make(specs_, 1, Mode::kSettle, 100);
  const auto unmoved = Make(specs_, 2, Mode::kSettle, 100);
  moved->Start(*store_);
  unmoved->RunOn(*store_);
  EXPECT_EQ(unmoved->settled, Settled::kSettled) << "it does not wait for the other settlement";
  MigrateOnly(key_);
  EXPECT_EQ(moved->Wait().settled, Settled::kSettled);
  FinishMove();
  EXPECT_EQ(Used(*store_, key_), 200);
  EXPECT_EQ(Make(specs_, 1, Mode::kSettle, 0)->RunOn(*store_).settled, Settled::kAlreadySettled);
  EXPECT_EQ(Make(specs_, 2, Mode::kSettle, 0)->RunOn(*store_).settled, Settled::kAlreadySettled);
}

// Leases are taken and settled before, during and after the move.
TEST_F(LeaseInMovingSlot, SlotMovesUnderLoad_EachLeaseIsSettledOnce) {
  constexpr std::uint32_t kLeases = 300;
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (std::uint32_t i = 0; i < kLeases; ++i) {
    checks.push_back(Make(specs_, i, Mode::kConsume, 10));
    checks.push_back(Make(specs_, i, Mode::kSettle, 3));
    checks.push_back(Make(specs_, i, Mode::kSettle, 0));
  }
  for (auto& check : checks) check->in_order = true;
  std::size_t started = 0;
  const auto start_some = [&] {
    for (int i = 0; i < 90 && started < checks.size(); ++i) checks[started++]->Start(*store_);
  };
  start_some();
  cluster_.BeginMove(kSlot, 1);
  do {
    start_some();
  } while (cluster_.MoveKeys(kSlot, 1, 10) > 0);
  start_some();
  cluster_.FinishMove(kSlot, 1);
  while (started < checks.size()) start_some();
  for (std::size_t i = 0; i < checks.size(); i += 3) {
    EXPECT_TRUE(checks[i]->Wait().admitted) << i;
    EXPECT_EQ(checks[i + 1]->Wait().settled, Settled::kSettled) << i;
    EXPECT_EQ(checks[i + 2]->Wait().settled, Settled::kAlreadySettled) << i;
  }
  EXPECT_EQ(Used(*store_, key_), 3 * kLeases);
}

// One call has all leases of a slot.
TEST_F(LeaseInMovingSlot, LeasesOfOneSlot_ShareACall) {
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (std::uint32_t i = 0; i < 40; ++i) checks.push_back(Make(specs_, i, Mode::kConsume, 1));
  const auto calls = [&] { return cluster_.node(0).Connect().Calls("evalsha"); };
  const auto before = calls();
  Io().RunOn(0, [&](net::Loop&) {
    for (auto& check : checks) store_->Submit(*check);
  });
  for (auto& check : checks) EXPECT_TRUE(check->Wait().admitted);
  EXPECT_EQ(calls(), before + 1);
}

// Takes `count` leases of 10 units each, at most kAtOnce at a time. If too many checks waited, the
// store would refuse some.
void TakeMany(Store& store, const std::vector<CounterSpec>& specs, std::uint32_t count) {
  constexpr std::uint32_t kAtOnce = 50;
  for (std::uint32_t first = 0; first < count; first += kAtOnce) {
    std::vector<std::unique_ptr<BlockingCheck>> takes;
    for (std::uint32_t i = first; i < std::min(first + kAtOnce, count); ++i) {
      takes.push_back(Make(specs, i, Mode::kConsume, 10));
      takes.back()->Start(store);
    }
    for (auto& take : takes) ASSERT_TRUE(take->Wait().admitted);
  }
}

// Calls Store::Settle for each of `checks`. Returns how many the store has accepted.
int SettleAll(Store& store, const std::vector<std::unique_ptr<BlockingCheck>>& checks) {
  int taken = 0;
  Io().RunOn(0, [&](net::Loop&) {
    for (const auto& check : checks) taken += store.Settle(*check) ? 1 : 0;
  });
  return taken;
}

TEST(RedisLeases, RedisIsUnavailable_50000Settlements_AreEachAppliedOnceLater) {
  constexpr std::uint32_t kLeases = 50'000;
  RedisServer server;
  MetricsRegistry metrics;
  const auto store =
      Connect(server.url(), {.timeout = kPatience, .silence = kPatience, .metrics = &metrics});
  const std::vector<CounterSpec> specs{{"sluice:{t/r}:k", kWindow}};
  ASSERT_NO_FATAL_FAILURE(TakeMany(*store, specs, kLeases));
  EXPECT_EQ(Used(*store, "sluice:{t/r}:k"), 10 * kLeases);

  server.Pause();
  std::vector<std::unique_ptr<BlockingCheck>> settles;
  for (std::uint32_t i = 0; i < kLeases; ++i) {
    settles.push_back(Make(specs, i, Mode::kSettle, 3));
  }
  EXPECT_EQ(SettleAll(*store, settles), static_cast<int>(kLeases));
  settles.clear();
  server.Resume();
  const auto queued = [&] {
    return metrics.Render().find("sluice_redis_queued_settles{loop=\"io-0\"} 0\n");
  };
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return queued() != std::string::npos; }));
  EXPECT_EQ(Used(*store, "sluice:{t/r}:k"), 3 * kLeases);
  EXPECT_EQ(Make(specs, 7, Mode::kSettle, 0)->RunOn(*store).settled, Settled::kAlreadySettled);
}

// Only Redis can tell whether a lease exists. So if Redis is unavailable, a caller can queue
// settlements of any number of invented leases, each with many counters.
TEST(RedisLeases, RedisIsUnavailable_QueueOfSettlementsIsBoundedByTheirCounters) {
  RedisServer server;
  const auto store = Connect(server.url(), {.timeout = kPatience, .silence = kPatience});
  std::vector<CounterSpec> specs;
  for (int i = 0; i < 50; ++i) specs.push_back({fmt::format("sluice:{{t/r}}:{}", i), kWindow});
  const auto takes = [&](std::uint32_t lease) {
    std::vector<std::unique_ptr<BlockingCheck>> settle;
    settle.push_back(Make(specs, lease, Mode::kSettle, 3));
    return SettleAll(*store, settle) == 1;
  };
  server.Pause();
  std::uint32_t taken = 0;
  while (taken < 10'000 && takes(taken)) ++taken;
  EXPECT_EQ(taken, 300'000u / 50);
  EXPECT_TRUE(takes(0)) << "the settlement is already queued";
  server.Resume();
  EXPECT_TRUE(store->WaitUntilSettled(SteadyNow() + kPatience));
  EXPECT_TRUE(takes(taken)) << "there is room again";
}

// The connections are lost when settlements are in flight, so the store cannot tell which have run.
TEST(RedisLeases, RedisIsKilledAndReturns_SettlementsAreAppliedOnce) {
  constexpr std::uint32_t kLeases = 2'000;
  RedisServer server({.arguments = {"--appendonly", "yes", "--appendfsync", "always"}});
  const auto store = Connect(server.url());
  const std::vector<CounterSpec> specs{{"sluice:{t/r}:k", kWindow}};
  ASSERT_NO_FATAL_FAILURE(TakeMany(*store, specs, kLeases));
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (std::uint32_t i = 0; i < kLeases; ++i) checks.push_back(Make(specs, i, Mode::kSettle, 3));
  EXPECT_EQ(SettleAll(*store, checks), static_cast<int>(kLeases));
  server.Kill();
  EXPECT_EQ(SettleAll(*store, checks), static_cast<int>(kLeases)) << "repeated by callers";
  server.Start();
  ASSERT_TRUE(store->WaitUntilReady(kPatience));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return Used(*store, "sluice:{t/r}:k") == 3 * kLeases; }));
}

// Settlements wait until the store is connected to the new master, which has the records of all
// leases.
TEST(RedisLeases, SentinelsChooseAnotherMaster_SettlementsAreAppliedOnce) {
  constexpr std::uint32_t kLeases = 500;
  RedisSentinels redis({});
  const auto store = Connect(redis.Url());
  const std::vector<CounterSpec> specs{{"sluice:{t/r}:k", kWindow}};
  ASSERT_NO_FATAL_FAILURE(TakeMany(*store, specs, kLeases));
  ASSERT_EQ(redis.master().Connect().Integer({"WAIT", "1", "0"}), 1);
  RedisServer& old = redis.master();
  old.Kill();
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (std::uint32_t i = 0; i < kLeases; ++i) checks.push_back(Make(specs, i, Mode::kSettle, 3));
  EXPECT_EQ(SettleAll(*store, checks), static_cast<int>(kLeases));
  redis.WaitForOther(old);
  EXPECT_EQ(SettleAll(*store, checks), static_cast<int>(kLeases)) << "repeated by callers";
  EXPECT_TRUE(store->WaitUntilSettled(SteadyNow() + kPatience));
  EXPECT_EQ(Used(*store, "sluice:{t/r}:k"), 3 * kLeases);
  EXPECT_EQ(Make(specs, 7, Mode::kSettle, 0)->RunOn(*store).settled, Settled::kAlreadySettled);
}

TEST(RedisLeases, WaitUntilSettled_ReturnsWhenRedisAnswersOrAtTheDeadline) {
  RedisServer server;
  const auto store = Connect(server.url());
  const std::vector<CounterSpec> specs{{"sluice:{t/r}:k", kWindow}};
  ASSERT_NO_FATAL_FAILURE(TakeMany(*store, specs, 1));
  server.Pause();
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  checks.push_back(Make(specs, 0, Mode::kSettle, 3));
  EXPECT_EQ(SettleAll(*store, checks), 1);
  EXPECT_FALSE(store->WaitUntilSettled(SteadyNow() + milliseconds(20)));
  server.Resume();
  EXPECT_TRUE(store->WaitUntilSettled(SteadyNow() + kPatience));
  EXPECT_EQ(Used(*store, "sluice:{t/r}:k"), 3);
}

// The late reply grants a lease, but its check has already failed, so nobody holds the lease.
TEST(RedisLeases, ReplyIsLate_ItsLeaseIsSettledWithZero) {
  RedisServer server;
  const auto store = Connect(server.url());
  const std::vector<CounterSpec> specs{
      {"sluice:{t/r}:k", kWindow},
      {"sluice:{t/r}:slots", Concurrency{.limit = 5, .ttl = minutes(10)}, 0, 1}};
  EXPECT_TRUE(Make(specs, 1, Mode::kConsume, 5)->RunOn(*store).admitted);
  server.Pause();
  const auto late = Make(specs, 2, Mode::kConsume, 100);
  late->deadline = SteadyNow() + milliseconds(20);
  EXPECT_EQ(late->RunOn(*store).failure(), StoreFailure::kTimeout);
  server.Resume();
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    return Make(specs, 2, Mode::kInspect, 0)->RunOn(*store).settled == Settled::kAlreadySettled;
  }));
  EXPECT_EQ(Used(*store, "sluice:{t/r}:k"), 5);
}

TEST(RedisLeases, RecordWithForeignData_FailsOnlyItsCheck) {
  RedisServer server;
  const auto store = Connect(server.url());
  const std::vector<CounterSpec> specs{{"sluice:{t/r}:k", kWindow}};
  const std::string record =
      fmt::format("sluice:{{t/r}}:lease:{:02x}", fmt::join(LeaseOf(1).id, ""));
  server.Connect().Text({"SET", record, "foreign data"});
  const auto foreign = Make(specs, 1, Mode::kSettle, 0);
  const auto other = Make(specs, 2, Mode::kConsume, 7);
  Io().RunOn(0, [&](net::Loop&) {
    store->Submit(*foreign);
    store->Submit(*other);
  });
  EXPECT_EQ(foreign->Wait().failure(), StoreFailure::kCounterRejected);
  EXPECT_TRUE(other->Wait().admitted);
  EXPECT_EQ(Used(*store, "sluice:{t/r}:k"), 7);
}

// Redis removes records by itself. docs/redis.md states their sizes.
TEST(RedisLeases, Record_ExpiresTenMinutesAfterItsLeaseOrAMinuteAfterItsSettlement) {
  RedisServer server;
  const auto store = Connect(server.url());
  Make({{"sluice:{t/r}:k", kWindow}}, 1, Mode::kConsume, 5)->RunOn(*store);
  auto redis = server.Connect();
  const std::string record =
      fmt::format("sluice:{{t/r}}:lease:{:02x}", fmt::join(LeaseOf(1).id, ""));
  const auto left = redis.Integer({"TTL", record});
  EXPECT_GT(left, 20 * 60 - 60);
  EXPECT_LE(left, 20 * 60 + 1);
  Make({{"sluice:{t/r}:k", kWindow}}, 1, Mode::kSettle, 5)->RunOn(*store);
  EXPECT_LE(redis.Integer({"TTL", record}), 61);
  EXPECT_LE(redis.Integer({"STRLEN", record}), 12);
}

}  // namespace
}  // namespace sluice::test
