// The store on a Redis Cluster of real processes: one pack for each node, checks that span nodes,
// and changes of slots, nodes and masters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/notification.h"
#include "store/redis/redis_store.h"
#include "store/redis/slot.h"
#include "tests/store/blocking_check.h"
#include "tests/store/fake_redis.h"
#include "tests/store/raw_redis.h"
#include "tests/store/test_redis.h"
#include "tests/support/captured_log.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using redis::SlotOf;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr FixedWindow kMany{.limit = 1'000'000, .window = minutes(10)};
constexpr seconds kTimeout(30);

TEST(RedisSlot, Keys_HaveTheSlotsOfTheClusterSpecification) {
  struct Row {
    std::string key;
    int slot;
  };
  const Row rows[] = {
      {"123456789", 12739},
      {"", 0},
      {"foo", 12182},
      {"{user1000}.following", SlotOf("user1000")},
      {"foo{}{bar}", SlotOf("foo{}{bar}")},
      {"foo{{bar}}zap", SlotOf("{bar")},
      {"foo{bar}{zap}", SlotOf("bar")},
      {"b", 3300},
  };
  for (const Row& row : rows) EXPECT_EQ(SlotOf(row.key), row.slot) << row.key;
  EXPECT_NE(SlotOf("foo{}{bar}"), SlotOf("bar"));
}

// A counter key whose slot is `slot`.
std::string KeyIn(std::size_t slot, const std::string& suffix = "") {
  for (int i = 0;; ++i) {
    const std::string tag = "{" + std::to_string(i) + "}";
    if (SlotOf(tag) == slot) return "sluice:" + tag + suffix;
  }
}

// The cluster of most tests: three masters with their initial slots.
RedisCluster& Three() {
  static RedisCluster cluster({.masters = 3});
  return cluster;
}

std::unique_ptr<RedisStore> Connect(const RedisCluster& cluster) {
  auto store = std::make_unique<RedisStore>(
      Io(), RedisUrl::Parse(cluster.Url()).value(),
      RedisStore::Options{.timeout = seconds(10), .silence = seconds(20)});
  EXPECT_TRUE(store->WaitUntilReady(kTimeout));
  return store;
}

constexpr std::size_t kFirst = 0;       // one of the first node's slots
constexpr std::size_t kSecond = 6000;   // one of the second's
constexpr std::size_t kThird = 12'000;  // one of the third's

std::int64_t Remaining(RedisStore& store, const std::string& key, const Limit& limit) {
  BlockingCheck peek({{key, limit}}, 1, Mode::kPeek);
  EXPECT_FALSE(peek.RunOn(store).failure());
  return peek.counters[0].verdict.remaining;
}

TEST(RedisClusterStore, ChecksOfManySlots_AreOneCallForEachNode) {
  RedisCluster& cluster = Three();
  const auto store = Connect(cluster);
  const auto calls = [&] {
    std::vector<std::int64_t> by_node;
    for (std::size_t i = 0; i < 3; ++i) {
      by_node.push_back(cluster.node(i).Connect().Calls("evalsha"));
    }
    return by_node;
  };
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (int i = 0; i < 60; ++i) {
    checks.push_back(std::make_unique<BlockingCheck>(
        std::vector<CounterSpec>{{"sluice:{one-call-" + std::to_string(i) + "}", kMany}}));
  }
  auto expected = calls();
  for (std::int64_t& it : expected) ++it;
  Io().RunOn(0, [&](net::Loop&) {
    for (auto& check : checks) store->Submit(*check);
  });
  for (auto& check : checks) EXPECT_TRUE(check->Wait().admitted);
  EXPECT_EQ(calls(), expected);
}

// If a check is denied, it is undone on the nodes that granted it.
TEST(RedisClusterStore, CheckThatSpansNodes_IsAllOrNothing) {
  Three().Flush();
  const auto store = Connect(Three());
  const FixedWindow narrow{.limit = 1, .window = minutes(10)};
  const FixedWindow wide{.limit = 5, .window = minutes(10)};
  const std::string a = KeyIn(kFirst), b = KeyIn(kSecond), c = KeyIn(kThird),
                    d = KeyIn(kThird, "d");
  BlockingCheck check({{a, wide}, {b, narrow}, {c, wide}, {d, wide, 1}});
  EXPECT_TRUE(check.RunOn(*store).admitted);
  EXPECT_EQ(Remaining(*store, a, wide), 4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(check.RunOn(*store).admitted);
    EXPECT_FALSE(check.failure());
    EXPECT_TRUE(check.counters[0].verdict.admitted);
    EXPECT_EQ(check.counters[0].verdict.remaining, 4) << "as before the check";
    EXPECT_FALSE(check.counters[1].verdict.admitted);
    EXPECT_EQ(Remaining(*store, a, wide), 4) << "the undo is decided before this peek";
    EXPECT_EQ(Remaining(*store, c, wide), 4);
    EXPECT_EQ(Remaining(*store, d, wide), 4) << "the shadow rule is not charged either";
  }
}

// A shadow rule that denies does not change the decision, and takes nothing.
TEST(RedisClusterStore, ShadowRuleThatSpansNodes_IsChargedAllOrNothing) {
  Three().Flush();
  const auto store = Connect(Three());
  const FixedWindow narrow{.limit = 1, .window = minutes(10)};
  const std::string a = KeyIn(kFirst), b = KeyIn(kSecond), c = KeyIn(kThird);
  BlockingCheck check({{a, kMany}, {b, narrow, 1}, {c, kMany, 1}});
  for (int i = 1; i <= 5; ++i) {
    EXPECT_TRUE(check.RunOn(*store).admitted);
    EXPECT_EQ(Remaining(*store, a, kMany), kMany.limit - i);
    EXPECT_EQ(Remaining(*store, c, kMany), kMany.limit - 1);
  }
}

TEST(RedisClusterStore, LeaseThatSpansNodes_IsTakenRenewedAndReleasedWhole) {
  Three().Flush();
  const auto store = Connect(Three());
  const Concurrency one{.limit = 1, .ttl = minutes(10)};
  const Concurrency two{.limit = 2, .ttl = minutes(10)};
  const std::string a = KeyIn(kFirst), b = KeyIn(kSecond);
  const auto run = [&](std::uint8_t id, Mode mode) {
    BlockingCheck check({{a, one}, {b, two}}, 1, mode);
    check.lease = Lease{.ttl = minutes(10)};
    check.lease->id.fill(id);
    check.RunOn(*store);
    EXPECT_FALSE(check.failure());
    return check.admitted;
  };
  EXPECT_TRUE(run(1, Mode::kConsume));
  EXPECT_FALSE(run(2, Mode::kConsume));
  EXPECT_EQ(Remaining(*store, b, two), 1) << "the slot taken on the second node is given back";
  EXPECT_TRUE(run(1, Mode::kRenew));
  EXPECT_FALSE(run(2, Mode::kRenew));
  EXPECT_TRUE(run(1, Mode::kSettle));
  EXPECT_TRUE(run(2, Mode::kConsume));
}

TEST(RedisClusterStore, Reset_OfCountersOnAllNodes_ResetsEach) {
  Three().Flush();
  const auto store = Connect(Three());
  const std::string keys[] = {KeyIn(kFirst), KeyIn(kSecond), KeyIn(kThird)};
  BlockingCheck({{keys[0], kMany}, {keys[1], kMany}, {keys[2], kMany}}).RunOn(*store);
  EXPECT_EQ(BlockingReset({keys[0], keys[1], keys[2]}).RunOn(*store), std::nullopt);
  for (const std::string& key : keys) EXPECT_EQ(Remaining(*store, key, kMany), kMany.limit);
}

// Logs in as the user in docs/redis.md.
TEST(RedisClusterStore, UserOfTheManual_CanJoinTheFleet) {
  RedisCluster cluster({.masters = 2, .arguments = UserOfTheManual()});
  RedisStore store(Io(), RedisUrl::Parse(cluster.Url("sluice:secret@")).value(), {});
  std::atomic<std::int64_t> servers = 0;
  store.JoinFleet([&](const redis::FleetView& view) { servers = view.servers; });
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return servers == 1; }));
  store.Stop();
}

// An interrupted migration lasts until an operator ends it. If servers could not join their fleet
// until then, no new server would become ready.
TEST(RedisClusterStore, SlotOfTheFleetsKeyMigrates_FleetIsJoined) {
  RedisCluster& cluster = Three();
  cluster.Flush();
  const std::uint16_t slot = SlotOf(redis::FleetMember::kKey);
  const std::size_t from = cluster.OwnerOf(slot), to = (from + 1) % 3;
  cluster.BeginMove(slot, to);
  const auto store = Connect(cluster);
  std::atomic<std::int64_t> servers = 0;
  std::atomic<bool> connected = false;
  store->JoinFleet([&](const redis::FleetView& view) {
    servers = view.servers;
    connected = view.connected;
  });
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return servers == 1; }));
  cluster.FinishMove(slot, to);
  cluster.Move(slot, from);
  EXPECT_TRUE(WaitUntil(kTimeout, [&] {
    return connected && cluster.node(from).Connect().Integer(
                            {"ZCARD", std::string(redis::FleetMember::kKey)}) == 1;
  }));
  store->Stop();
}

// While a slot migrates, each of its counters is on the old node or on the new one. New counters
// are created on the new one.
TEST(RedisClusterStore, SlotMigrates_EachCounterIsFoundWhereItIs) {
  RedisCluster& cluster = Three();
  cluster.Flush();
  const auto store = Connect(cluster);
  constexpr std::uint16_t kSlot = kFirst;
  const std::string old = KeyIn(kSlot), moved = KeyIn(kSlot, "moved"), fresh = KeyIn(kSlot, "new");
  const auto charge = [&](std::vector<CounterSpec> counters) {
    BlockingCheck check(std::move(counters));
    EXPECT_FALSE(check.RunOn(*store).failure());
    return check.counters[0].verdict.remaining;
  };
  EXPECT_EQ(charge({{old, kMany}}), kMany.limit - 1);
  EXPECT_EQ(charge({{moved, kMany}}), kMany.limit - 1);
  cluster.BeginMove(kSlot, 1);
  cluster.node(0).Connect().Text(
      {"MIGRATE", "127.0.0.1", std::to_string(cluster.node(1).port()), moved, "0", "5000"});
  EXPECT_EQ(charge({{old, kMany}}), kMany.limit - 2);
  EXPECT_EQ(charge({{moved, kMany}}), kMany.limit - 2);
  EXPECT_EQ(charge({{fresh, kMany}, {fresh + "2", kMany}}), kMany.limit - 1) << "two at once";
  EXPECT_EQ(charge({{fresh, kMany}}), kMany.limit - 2);

  // One counter has moved and one has not. The check is decided as soon as both are on one node.
  BlockingCheck both({{old, kMany}, {moved, kMany}});
  both.Start(*store);
  EXPECT_EQ(charge({{fresh, kMany}}), kMany.limit - 3);
  while (cluster.MoveKeys(kSlot, 1) > 0) {
  }
  EXPECT_TRUE(both.Wait().admitted);
  EXPECT_EQ(both.counters[0].verdict.remaining, kMany.limit - 3);
  cluster.FinishMove(kSlot, 1);
  EXPECT_EQ(charge({{old, kMany}}), kMany.limit - 4);
  EXPECT_EQ(BlockingReset({old, fresh}).RunOn(*store), std::nullopt);
  EXPECT_EQ(Remaining(*store, old, kMany), kMany.limit);
  cluster.Move(kSlot, 0);
}

// While a slot migrates, checks take grants and return earlier grants.
TEST(RedisClusterStore, SlotMigrates_GrantsMoveWithTheirCounters) {
  RedisCluster& cluster = Three();
  cluster.Flush();
  const auto store = Connect(cluster);
  constexpr std::uint16_t kSlot = kFirst;
  const Limit limit = FixedWindow{.limit = 800, .window = hours(24)};
  const std::string key = KeyIn(kSlot), other = KeyIn(kThird);
  std::vector<Grant> held(2);
  // Uses 30 units of each grant that is held, returns the rest, and takes the next grant.
  const auto exchange = [&](Mode mode) {
    BlockingCheck check({{key, limit}, {other, limit}}, 1, mode);
    check.concerns_grants = true;
    for (std::size_t i = 0; i < 2; ++i) {
      CounterCheck& counter = check.counters[i];
      counter.wanted = {.units = 50, .life = kMaxPrefetch};
      if (held[i].units > 0) counter.returned = {held[i].generation, 50, 20};
    }
    EXPECT_FALSE(check.RunOn(*store).failure());
    for (std::size_t i = 0; i < 2; ++i) held[i] = check.counters[i].grant;
    EXPECT_EQ(check.counters[0].verdict.remaining, check.counters[1].verdict.remaining);
    return check.counters[0].verdict.remaining;
  };
  EXPECT_EQ(exchange(Mode::kConsume), 799);
  EXPECT_EQ(held[0].units, 50);
  cluster.BeginMove(kSlot, 1);
  EXPECT_EQ(exchange(Mode::kConsume), 768);
  cluster.node(0).Connect().Text(
      {"MIGRATE", "127.0.0.1", std::to_string(cluster.node(1).port()), key, "0", "5000"});
  EXPECT_EQ(exchange(Mode::kConsume), 737);
  EXPECT_EQ(held[0].units, 50);
  while (cluster.MoveKeys(kSlot, 1) > 0) {
  }
  cluster.FinishMove(kSlot, 1);
  EXPECT_EQ(exchange(Mode::kPeek), 707);
  EXPECT_EQ(held[0].units, 0);
  EXPECT_EQ(Remaining(*store, key, limit), 707);
  cluster.Move(kSlot, 0);
}

// A probe charges a new counter. While a slot migrates, the old node refuses new counters of the
// slot. A migration can last long, for example if it is interrupted. The slot in this test is that
// of the first probe.
TEST(RedisClusterStore, SlotOfAProbeMigrates_BreakerStillCloses) {
  RedisCluster& cluster = Three();
  cluster.Flush();
  const std::uint16_t slot = SlotOf("sluice:{probe0}:fixed_window:1s");
  const std::size_t from = cluster.OwnerOf(slot), to = (from + 1) % 3;
  std::size_t other = 0;  // another slot of the same node
  while (other == slot || cluster.OwnerOf(static_cast<std::uint16_t>(other)) != from) other += 100;
  RedisStore store(Io(), RedisUrl::Parse(cluster.Url()).value(),
                   {.timeout = milliseconds(500), .silence = seconds(2)});
  ASSERT_TRUE(store.WaitUntilReady(kTimeout));
  const auto decides = [&] {
    BlockingCheck check({{KeyIn(other), kMany}});
    check.deadline = SteadyNow() + milliseconds(500);
    return !check.RunOn(store).failure();
  };
  ASSERT_TRUE(decides());
  cluster.BeginMove(slot, to);
  cluster.node(from).Pause();
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return !decides(); }));
  cluster.node(from).Resume();
  EXPECT_TRUE(WaitUntil(kTimeout, decides));
  cluster.FinishMove(slot, to);
  cluster.Move(slot, from);
}

// With `cluster-preferred-endpoint-type hostname`, a node without a hostname is "?" in the slot map
// and in redirects. Its address is in the slot map, too.
TEST(RedisClusterStore, NodesWithoutTheirHostname_AreFoundByAddress) {
  RedisCluster& cluster = Three();
  const auto announce = [&](const std::string& type) {
    for (std::size_t i = 0; i < 3; ++i) {
      cluster.node(i).Connect().Text({"CONFIG", "SET", "cluster-preferred-endpoint-type", type});
    }
  };
  announce("hostname");
  {
    const auto store = Connect(cluster);
    constexpr std::uint16_t kSlot = kFirst + 1;
    BlockingCheck check({{KeyIn(kSlot), kMany}, {KeyIn(kSecond), kMany}, {KeyIn(kThird), kMany}});
    EXPECT_TRUE(check.RunOn(*store).admitted);
    cluster.Move(kSlot, 1);
    BlockingCheck after({{KeyIn(kSlot), kMany}});
    after.deadline = SteadyNow() + seconds(10);
    EXPECT_TRUE(after.RunOn(*store).admitted);
    EXPECT_EQ(after.counters[0].verdict.remaining, kMany.limit - 2);
    cluster.Move(kSlot, 0);
  }
  announce("ip");
}

// Some counters are sorted sets, and Redis deletes a set with its last entry. If the script
// replaces all entries of a counter in a migrating slot, it must not delete the set even for a
// moment: the set could not be created again, so the call would end after some of its writes, and
// would be sent again.
TEST(RedisClusterStore, SlotMigrates_RewrittenCountersAreChargedOnce) {
  RedisCluster& cluster = Three();
  cluster.Flush();
  const auto store = Connect(cluster);
  constexpr std::uint16_t kSlot = kFirst;
  const SlidingLog log{.limit = 9, .window = milliseconds(500)};
  const SlidingLog long_log{.limit = 9, .window = minutes(1)};
  const Concurrency slots{.limit = 9, .ttl = milliseconds(500)};
  const std::string stale = KeyIn(kSlot, "stale"), refunded = KeyIn(kSlot, "refunded"),
                    undone = KeyIn(kSlot, "undone"), held = KeyIn(kSlot, "held"),
                    beside = KeyIn(kSlot, "beside"), elsewhere = KeyIn(kSlot + 1);
  const auto lease = [](std::uint8_t number) {
    return Lease{.id = {number}, .ttl = milliseconds(500)};
  };
  BlockingCheck({{stale, log}}).RunOn(*store);
  BlockingCheck({{refunded, long_log}}, 3).RunOn(*store);
  BlockingCheck({{undone, long_log}}).RunOn(*store);
  BlockingCheck to_undo({{undone, long_log}}, 3);
  to_undo.RunOn(*store);
  BlockingCheck first({{beside, kMany}, {held, slots}});
  first.lease = lease(1);
  EXPECT_TRUE(first.RunOn(*store).admitted);
  std::this_thread::sleep_for(milliseconds(600));
  cluster.BeginMove(kSlot, 1);

  BlockingCheck plain({{elsewhere, kMany}});
  BlockingCheck again({{stale, log}}, 2);
  BlockingCheck refund({{refunded, long_log}}, 1, Mode::kRefund);
  BlockingCheck second({{beside, kMany}, {held, slots}});
  second.lease = lease(2);
  Io().RunOn(0, [&](net::Loop&) {
    for (BlockingCheck* check : {&plain, &again, &refund, &second}) {
      check->deadline = SteadyNow() + seconds(5);
      store->Submit(*check);
    }
    store->Undo(to_undo);
  });
  for (BlockingCheck* check : {&plain, &again, &refund, &second}) {
    EXPECT_TRUE(check->Wait().admitted);
    EXPECT_FALSE(check->failure());
  }
  EXPECT_EQ(again.counters[0].verdict.remaining, 7);
  EXPECT_EQ(Remaining(*store, elsewhere, kMany), kMany.limit - 1);
  EXPECT_EQ(Remaining(*store, refunded, long_log), 9 - 2);
  EXPECT_EQ(Remaining(*store, undone, long_log), 9 - 1);
  EXPECT_EQ(Remaining(*store, beside, kMany), kMany.limit - 2);
  EXPECT_EQ(second.counters[1].verdict.remaining, 8);
  while (cluster.MoveKeys(kSlot, 1) > 0) {
  }
  cluster.FinishMove(kSlot, 1);
  EXPECT_EQ(Remaining(*store, refunded, long_log), 9 - 2);
  EXPECT_EQ(Remaining(*store, beside, kMany), kMany.limit - 2);
  cluster.Move(kSlot, 0);
}

// Callers on an io thread. They check the subjects in turn, without a pause.
class Crowd {
 public:
  struct Subject {
    std::vector<std::string> keys;
    std::int64_t tries = 0;
    std::int64_t admitted = 0;
  };

  Crowd(RedisStore& store, std::vector<Subject>& subjects, const Limit& limit, int callers)
      : store_(store), subjects_(subjects), limit_(limit), running_(callers) {
    for (int i = 0; i < callers; ++i) callers_.push_back(std::make_unique<Caller>(*this));
    Io().RunOn(0, [this](net::Loop&) {
      for (auto& caller : callers_) caller->AskNext();
    });
  }

  // Waits for at least `more` further checks of each subject, then ends. Returns how many checks
  // have failed.
  int End(std::int64_t more) {
    Io().RunOn(0, [&](net::Loop&) {
      rounds_left_ = (more + 1) * static_cast<std::int64_t>(subjects_.size());
    });
    ended_.Wait();
    return failures_;
  }

 private:
  class Caller final : public StoreCheck {
   public:
    explicit Caller(Crowd& crowd) : crowd_(crowd) {}

    void AskNext() {
      subject_ = &crowd_.subjects_[crowd_.next_++ % crowd_.subjects_.size()];
      counters.clear();
      for (const std::string& key : subject_->keys) {
        counters.push_back({.key = key, .limit = &crowd_.limit_, .verdict = {}});
      }
      crowd_.store_.Submit(*this);
    }

   private:
    void OnDecided() override {
      ++subject_->tries;
      subject_->admitted += admitted ? 1 : 0;
      crowd_.failures_ += failure() ? 1 : 0;
      if (crowd_.rounds_left_ > 0 && --crowd_.rounds_left_ == 0) crowd_.ending_ = true;
      if (crowd_.ending_) return crowd_.OnEnded();
      // The next check is not submitted from here: if the store answered at once, the calls would
      // recurse without end.
      net::Loop::Current()->Post([this] { AskNext(); });
    }

    Crowd& crowd_;
    Subject* subject_ = nullptr;
  };

  void OnEnded() {
    if (--running_ == 0) ended_.Notify();
  }

  RedisStore& store_;
  std::vector<Subject>& subjects_;
  const Limit limit_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::size_t next_ = 0;
  std::int64_t rounds_left_ = 0;
  bool ending_ = false;
  int running_;
  int failures_ = 0;
  Notification ended_;
};

std::vector<Crowd::Subject> SubjectsIn(const std::vector<std::uint16_t>& slots) {
  std::vector<Crowd::Subject> subjects;
  for (const std::uint16_t slot : slots) {
    subjects.push_back({.keys = {KeyIn(slot)}});
    subjects.push_back({.keys = {KeyIn(slot, "a"), KeyIn(slot, "b")}});
  }
  return subjects;
}

// Under load, slots move among nodes and to a new node: the counts are exact, and no check fails.
TEST(RedisClusterStore, SlotsMoveUnderLoad_CountsAreExact) {
  RedisCluster cluster({.masters = 3});
  const auto store = Connect(cluster);
  std::vector<std::uint16_t> slots;
  for (std::uint16_t i = 0; i < 20; ++i) slots.push_back(i);
  std::vector<Crowd::Subject> subjects = SubjectsIn(slots);
  for (const std::uint16_t other : {6000, 6001, 12'000, 12'001}) {
    subjects.push_back({.keys = {KeyIn(other)}});
  }
  constexpr FixedWindow kLimit{.limit = 3000, .window = minutes(10)};
  Crowd crowd(*store, subjects, kLimit, 64);
  for (int round = 0; round < 2; ++round) {
    for (const std::uint16_t slot : slots) cluster.Move(slot, 1);
    for (const std::uint16_t slot : slots) cluster.Move(slot, 2);
    for (const std::uint16_t slot : slots) cluster.Move(slot, 0);
  }
  const std::size_t added = cluster.AddMaster();
  for (const std::uint16_t slot : slots) cluster.Move(slot, added);
  for (const std::uint16_t slot : slots) cluster.Move(slot, 1);
  // A node without slots is no longer used, and may be stopped.
  EXPECT_TRUE(WaitUntil(kTimeout, [&] {
    const std::string clients = cluster.node(added).Connect().Text({"CLIENT", "LIST"});
    return clients.find("name=sluiced") == std::string::npos;
  }));
  cluster.Kill(added);
  EXPECT_EQ(crowd.End(kLimit.limit), 0);
  for (const auto& subject : subjects) {
    EXPECT_GE(subject.tries, kLimit.limit);
    EXPECT_EQ(subject.admitted, kLimit.limit) << subject.keys[0];
  }
}

// Some servers with Redis' protocol let scripts access only declared keys.
TEST(RedisClusterStore, UndeclaredKeysAreRefused_PacksAreSentBySlot) {
  RedisServer real;
  RawRedis redis(real.socket_path());
  std::atomic<int> refused = 0;
  const FakeRedis* self = nullptr;
  FakeRedis server(
      [&](const RedisCommand& command) -> std::string {
        if (command[0] == "CLUSTER") {
          return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:" + std::to_string(self->port()) +
                 "\r\n";
        }
        if (command[0] == "EVALSHA" && command[2] == "0") {
          ++refused;
          return "-ERR Error running script: script tried accessing undeclared key\r\n";
        }
        return redis.Ask(command);
      },
      FakeRedis::Listen::kTcp);
  self = &server;
  RedisStore store(
      Io(), RedisUrl::Parse("redis+cluster://127.0.0.1:" + std::to_string(server.port())).value(),
      {.timeout = seconds(10), .silence = seconds(20)});
  ASSERT_TRUE(store.WaitUntilReady(kTimeout));
  const std::string a = KeyIn(kFirst), b = KeyIn(kSecond);
  for (int i = 1; i <= 10; ++i) {
    BlockingCheck check({{a, kMany}, {b, kMany}});
    EXPECT_TRUE(check.RunOn(store).admitted);
    EXPECT_EQ(check.counters[1].verdict.remaining, kMany.limit - i);
  }
  EXPECT_EQ(refused, 1) << "the store sends undeclared keys only once";
}

TEST(RedisClusterStore, SlotMapWithARangeForEachSlot_IsRead) {
  RedisServer real;
  RawRedis redis(real.socket_path());
  std::string map;
  FakeRedis server(
      [&](const RedisCommand& command) {
        return command[0] == "CLUSTER" ? map : redis.Ask(command);
      },
      FakeRedis::Listen::kTcp);
  const std::string name = Bulk("a-name-of-about-forty-characters.example");
  const std::string node = "*4\r\n" + Bulk("127.0.0.1") + ":" + std::to_string(server.port()) +
                           "\r\n" + Bulk(std::string(40, 'f')) + "*4\r\n" + Bulk("hostname") +
                           name + Bulk("ip") + Bulk("127.0.0.1");
  map = "*16384\r\n";
  for (int slot = 0; slot < 16384; ++slot) {
    const std::string place = ":" + std::to_string(slot) + "\r\n";
    map.append("*5\r\n").append(place).append(place).append(node).append(node).append(node);
  }
  RedisStore store(
      Io(), RedisUrl::Parse("redis+cluster://127.0.0.1:" + std::to_string(server.port())).value(),
      {.timeout = seconds(10), .silence = seconds(20)});
  EXPECT_TRUE(store.WaitUntilReady(kTimeout));
}

// Records which parts of the store were lost.
class LossRecorder final : public StoreListener {
 public:
  std::set<std::size_t> lost() const {
    const MutexLock lock(mutex_);
    return lost_;
  }

 private:
  void OnPartLost(std::size_t part) override {
    const MutexLock lock(mutex_);
    lost_.insert(part);
  }
  void OnPartFound(std::size_t) override {}
  void OnLateAnswer(const StoreCheck&) override {}
  void OnUndoStarted(const StoreCheck&) override {}
  void OnUndoEnded(const StoreCheck&) override {}
  void OnSettled(const StoreCheck&) override {}

  mutable Mutex mutex_;
  std::set<std::size_t> lost_ SLUICE_GUARDED_BY(mutex_);
};

TEST(RedisClusterStore, MasterDies_ReplicaTakesOver_OtherNodesContinue) {
  RedisCluster cluster({.masters = 3, .replicas = 1, .node_timeout = "2000"});
  LossRecorder recorder;
  RedisStore store(Io(), RedisUrl::Parse(cluster.Url()).value(),
                   {.timeout = milliseconds(500), .silence = seconds(2), .listener = &recorder});
  ASSERT_TRUE(store.WaitUntilReady(kTimeout));
  const auto decides = [&](std::size_t slot) {
    BlockingCheck check({{KeyIn(slot), kMany}});
    check.deadline = SteadyNow() + milliseconds(500);
    return !check.RunOn(store).failure();
  };
  const auto parts = [&] {
    std::vector<std::size_t> of_nodes;
    Io().RunOn(0, [&](net::Loop&) {
      for (const std::size_t slot : {kFirst, kSecond, kThird}) {
        of_nodes.push_back(store.PartOf(KeyIn(slot)));
      }
    });
    return of_nodes;
  };
  for (const std::size_t slot : {kFirst, kSecond, kThird}) ASSERT_TRUE(decides(slot));
  const std::vector<std::size_t> before = parts();
  EXPECT_EQ(std::set(before.begin(), before.end()).size(), 3);
  cluster.Kill(0);
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return !decides(kFirst); }));
  // Each node learns separately that the cluster is complete again.
  for (const std::size_t slot : {kFirst, kSecond, kThird}) {
    EXPECT_TRUE(WaitUntil(kTimeout, [&] { return decides(slot); }));
  }
  EXPECT_EQ(parts(), before) << "the replica has the part of its master";
  EXPECT_EQ(recorder.lost(), std::set{before.front()});
}

}  // namespace
}  // namespace sluice::test
