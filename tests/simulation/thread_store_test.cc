// One io thread's part of the Redis store with two simulated nodes of a cluster: replies in an
// order that is rare with real servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/redis/slot.h"
#include "store/redis/thread_store.h"
#include "tests/simulation/network.h"
#include "tests/simulation/redis_server.h"
#include "tests/simulation/slot_map.h"

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;

const Limit kTen = FixedWindow{.limit = 10, .window = std::chrono::hours(1)};
const Limit kHundred = FixedWindow{.limit = 100, .window = std::chrono::hours(1)};
const Limit kSlot = Concurrency{.limit = 1, .ttl = std::chrono::hours(1)};

class ThreadStoreTest : public testing::Test, private StoreListener {
 protected:
  // A check that records its position among the answers.
  class RecordingCheck final : public StoreCheck {
   public:
    RecordingCheck(ThreadStoreTest& test, std::vector<std::string> keys)
        : test_(test), keys_(std::move(keys)) {
      for (const std::string& key : keys_) {
        counters.push_back({.key = key, .limit = &kTen, .verdict = {}});
      }
      deadline = test.world_.now() + kTimeout;
    }

    int place = -1;
    bool undoes = false;  // late grants

   private:
    void OnDecided() override {
      place = test_.answers_++;
      if (undoes) test_.store_->Undo(*this);
    }

    ThreadStoreTest& test_;
    const std::vector<std::string> keys_;
  };

  static constexpr milliseconds kTimeout{10};

  ThreadStoreTest() {
    spdlog::set_level(spdlog::level::off);
    loop_.Run([this] {
      store_ = std::make_unique<redis::ThreadStore>(
          redis::ThreadStoreContext{.loop = loop_,
                                    .servers = servers_,
                                    .metrics = metrics_,
                                    .access = {},
                                    .clustered = true,
                                    .options = {.timeout = kTimeout, .listener = this},
                                    .on_layout_suspect = [] {}});
      redis::Layout layout{.servers = {kAddresses[0], kAddresses[1]}, .owners = {}};
      for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
        layout.owners.push_back(OwnerOf(KeyIn(slot)));
      }
      store_->Use(layout);
    });
    RunFor(milliseconds(100));
  }
  ~ThreadStoreTest() override {
    loop_.Run([this] {
      store_->Stop();
      loop_.DisposeLater(std::move(store_));
    });
  }

  static std::string KeyIn(std::size_t slot) {
    static const std::vector<std::string> tags = [] {
      std::vector<std::string> found(redis::kSlots);
      for (std::size_t i = 0, missing = redis::kSlots; missing > 0; ++i) {
        const std::string tag = "{" + std::to_string(i) + "}";
        std::string& place = found[redis::SlotOf(tag)];
        missing -= place.empty() ? 1 : 0;
        if (place.empty()) place = tag;
      }
      return found;
    }();
    return "sluice:" + tags[slot] + "k";
  }
  std::uint16_t OwnerOf(const std::string& key) const {
    return static_cast<std::uint16_t>(slots_.OwnerOf(key));
  }
  // A key in the n-th of the slots that the node owns.
  std::string KeyAt(std::size_t node, int n = 0) const {
    for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
      if (OwnerOf(KeyIn(slot)) == node && n-- == 0) return KeyIn(slot);
    }
    return "";
  }

  RecordingCheck& Make(std::vector<std::string> keys) {
    return *checks_.emplace_back(std::make_unique<RecordingCheck>(*this, std::move(keys)));
  }
  RecordingCheck& Submit(std::vector<std::string> keys, bool in_order = false) {
    RecordingCheck& check = Make(std::move(keys));
    check.in_order = in_order;
    loop_.Run([&] { store_->Submit(check); });
    return check;
  }
  void MoveKey(const std::string& key) {
    redis_[0]->counters().MoveKey(key, redis_[1]->counters());
  }
  // Moves the check's slot to the second node. The store does not know it yet.
  void MoveSlot(const std::string& key) {
    slots_.BeginMove(key, 1);
    MoveKey(key);
    slots_.EndMove(key);
  }
  void RunFor(Duration duration) { world_.RunUntil(world_.now() + duration); }

  std::int64_t Used(std::size_t node, const std::string& key) const {
    const auto counter = redis_[node]->counters().by_key.find(key);
    if (counter == redis_[node]->counters().by_key.end()) return 0;
    return sluice::Used(counter->second.limit, counter->second.state);
  }

  const Address kAddresses[2] = {{.host = "simulated", .port = 7000, .unix_path = {}},
                                 {.host = "simulated", .port = 7001, .unix_path = {}}};
  const LinkOptions links_{.least_delay = Duration(10), .most_delay = Duration(20)};
  World world_{1};
  const Script script_{
      std::vector<Limit>{kTen, kHundred, kSlot,
                         FixedWindow{.limit = kMaxProduct, .window = std::chrono::seconds(1)}},
      nullptr};
  SlotMap slots_{world_, {kAddresses[0], kAddresses[1]}};
  const std::unique_ptr<RedisServer> redis_[2] = {
      std::make_unique<RedisServer>(world_, script_, kAddresses[0], &slots_),
      std::make_unique<RedisServer>(world_, script_, kAddresses[1], &slots_)};
  SimulatedLoop loop_{world_, [this](const Address& address) {
                        return redis_[address == kAddresses[0] ? 0 : 1]->Accept(links_);
                      }};
  MetricsRegistry metrics_;
  redis::Servers servers_{1, true, metrics_};
  std::vector<std::unique_ptr<RecordingCheck>> checks_;
  int answers_ = 0;
  std::unique_ptr<redis::ThreadStore> store_;
  std::vector<std::pair<std::string, std::int64_t>> undone_;  // keys, and what remained then
  std::int64_t grants_undone_ = 0;                            // units
  std::vector<std::string> undos_started_;
  std::vector<std::pair<LeaseId, Settled>> settled_;  // by Store::Settle
  std::vector<std::size_t> lost_;                     // parts
  std::vector<std::size_t> found_;                    // parts

 private:
  void OnPartLost(std::size_t part) override { lost_.push_back(part); }
  void OnPartFound(std::size_t part) override { found_.push_back(part); }
  void OnLateAnswer(const StoreCheck&) override {}
  void OnUndoStarted(const StoreCheck& undo) override {
    for (const CounterCheck& it : undo.counters) undos_started_.emplace_back(it.key);
  }
  void OnUndoEnded(const StoreCheck& undo) override {
    for (const CounterCheck& it : undo.counters) {
      undone_.emplace_back(it.key, it.verdict.remaining);
      grants_undone_ += it.grant.units;
    }
  }
  void OnSettled(const StoreCheck& settlement) override {
    settled_.emplace_back(settlement.lease->id, settlement.settled);
  }
};

TEST_F(ThreadStoreTest, NodeIsLostAndComesBack_ItsSlotsAreReported) {
  const std::size_t part = store_->PartOf(KeyAt(1));
  found_.clear();
  redis_[1]->Kill();
  RunFor(milliseconds(50));
  EXPECT_THAT(lost_, testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(part)));
  EXPECT_THAT(found_, testing::IsEmpty());
  redis_[1]->Start();
  RunFor(std::chrono::seconds(1));
  EXPECT_THAT(found_, testing::ElementsAre(part));
}

TEST_F(ThreadStoreTest, ConnectedNodeTakesOverLostSlots_TheyAreReported) {
  redis_[0]->Kill();
  RunFor(milliseconds(50));
  found_.clear();
  redis::Layout swapped{.servers = {kAddresses[1], kAddresses[0]}, .owners = {}};
  for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
    swapped.owners.push_back(OwnerOf(KeyIn(slot)));
  }
  loop_.Run([&] { store_->Use(swapped); });
  EXPECT_THAT(found_, testing::ElementsAre(0));
}

TEST_F(ThreadStoreTest, CheckIsDeniedByOneNode_UndosOfTheOtherAreReported) {
  const std::string here = KeyAt(0);
  const std::string full = KeyAt(1);
  for (int i = 0; i < 10; ++i) Submit({full});
  RunFor(milliseconds(1));
  RecordingCheck& denied = Submit({here, full});
  RunFor(milliseconds(1));
  EXPECT_FALSE(denied.admitted);
  EXPECT_THAT(undos_started_, testing::ElementsAre(here));
  EXPECT_THAT(undone_, testing::ElementsAre(std::pair(here, 10)));
}

TEST_F(ThreadStoreTest, CheckIsDeniedByOneNode_TheGrantOfTheOtherIsKept) {
  const std::string full = KeyAt(1);
  for (int i = 0; i < 10; ++i) Submit({full});
  RunFor(milliseconds(1));
  RecordingCheck& denied = Make({KeyAt(0), full});
  denied.concerns_grants = true;
  denied.counters.front().limit = &kHundred;
  denied.counters.front().wanted = {8, kTimeout};
  loop_.Run([&] { store_->Submit(denied); });
  RunFor(milliseconds(2));
  EXPECT_FALSE(denied.admitted);
  EXPECT_EQ(denied.counters.front().grant.units, 8);
  EXPECT_THAT(undone_, testing::ElementsAre(testing::Pair(KeyAt(0), 92)));
  EXPECT_EQ(grants_undone_, 0);
}

// Units come back, so what was denied before is reported as outdated.
TEST_F(ThreadStoreTest, GrantComesLate_ItsReturnIsReportedAsAnUndo) {
  const std::string key = KeyAt(0);
  redis_[0]->Hang();
  RecordingCheck& late = Make({key});
  late.concerns_grants = true;
  late.counters.front().limit = &kHundred;
  late.counters.front().wanted = {8, kTimeout};
  loop_.Run([&] { store_->Submit(late); });
  RunFor(milliseconds(20));
  EXPECT_TRUE(late.failure());
  redis_[0]->Resume();
  RunFor(milliseconds(5));
  EXPECT_THAT(undos_started_, testing::ElementsAre(key));
  EXPECT_THAT(undone_, testing::ElementsAre(testing::Pair(key, 99)));
  EXPECT_EQ(grants_undone_, 0) << "the return got no grant itself";
}

// A layout takes the node's slots away while one check is in flight there, which is then sent
// again.
TEST_F(ThreadStoreTest, NodeRetiresWithAnInOrderCheckInFlight_TheNextOneWaitsForIt) {
  const std::string key = KeyAt(0);
  redis_[0]->SetSlow(milliseconds(4));
  RecordingCheck& first = Submit({key}, true);
  RunFor(Duration(100));  // it is in flight
  RecordingCheck& second = Submit({key}, true);
  slots_.Replace(0, kAddresses[1]);
  loop_.Run([&] {
    store_->Use({.servers = {kAddresses[1]}, .owners = std::vector<std::uint16_t>(redis::kSlots)});
  });
  RunFor(milliseconds(20));
  EXPECT_FALSE(first.failure() || second.failure());
  EXPECT_LE(first.decided_at, second.decided_at);
  EXPECT_LT(first.place, second.place);
  EXPECT_EQ(Used(1, key), 2);
}

// A failover and back: the node hangs, loses its slots and gets them again, and then runs the check
// whose caller was answered long ago.
TEST_F(ThreadStoreTest, NodeComesBackBeforeItReplied_LeaseIsReleased) {
  const std::string key = KeyAt(0);
  redis::Layout both{.servers = {kAddresses[0], kAddresses[1]}, .owners = {}};
  for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
    both.owners.push_back(OwnerOf(KeyIn(slot)));
  }
  redis_[0]->Hang();
  RecordingCheck& check = Make({key});
  check.counters[0].limit = &kSlot;
  check.lease = Lease{.id = {1}, .ttl = std::chrono::hours(1)};
  loop_.Run([&] { store_->Submit(check); });
  RunFor(milliseconds(20));
  ASSERT_TRUE(check.failure());
  loop_.Run([&] {
    store_->Use({.servers = {kAddresses[1]}, .owners = std::vector<std::uint16_t>(redis::kSlots)});
  });
  RunFor(milliseconds(5));
  loop_.Run([&] { store_->Use(both); });
  RunFor(milliseconds(5));
  redis_[0]->Resume();
  RunFor(milliseconds(1));
  EXPECT_EQ(Used(0, key), 1) << "the check is to be run late";
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Used(0, key), 0);
}

// As above, but the node does not hang: its connections end after another node has replaced it.
TEST_F(ThreadStoreTest, NodeComesBackBeforeItsRemoval_CountsAsConnected) {
  const auto everything_at = [&](const Address& address) {
    loop_.Run([&] {
      store_->Use({.servers = {address}, .owners = std::vector<std::uint16_t>(redis::kSlots)});
    });
  };
  everything_at(kAddresses[1]);
  RunFor(milliseconds(5));
  everything_at(kAddresses[0]);
  RunFor(std::chrono::seconds(1));
  EXPECT_TRUE(servers_.At(kAddresses[0]).status.WaitUntilReady(SteadyTime::min()));
  EXPECT_THAT(
      metrics_.Render(),
      testing::HasSubstr("sluice_redis_connected{loop=\"io-0\",server=\"simulated:7000\"} 1"));
}

// The undo finds that one of its keys has moved to a node that does not answer.
TEST_F(ThreadStoreTest, UndoIsSplitAndAPieceFails_TheOtherIsNotUndoneTwice) {
  const std::string here = KeyAt(0) + "a";
  const std::string moved = KeyAt(0, 1) + "b";
  RecordingCheck& undone = Make({here, moved});
  for (CounterCheck& counter : undone.counters) counter.units = 2;
  RecordingCheck& kept = Make({here, moved});
  for (CounterCheck& counter : kept.counters) counter.units = 3;
  loop_.Run([&] {
    store_->Submit(undone);
    store_->Submit(kept);
  });
  RunFor(milliseconds(5));
  ASSERT_FALSE(undone.failure() || kept.failure());
  MoveSlot(moved);
  redis_[1]->Hang();
  loop_.Run([&] {
    servers_.At(kAddresses[1]).breaker.Open("it hangs");
    store_->Undo(undone);
  });
  RunFor(milliseconds(100));
  EXPECT_EQ(Used(0, here), 3);
  redis_[1]->Resume();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Used(0, here), 3);
  EXPECT_EQ(Used(1, moved), 3);
}

// Another io thread has opened the breaker of one node: its piece failed in flight, and its reply
// arrives before the other node's piece is decided.
TEST_F(ThreadStoreTest, PieceRepliesLateBeforeTheOthersAreDecided_IsUndone) {
  const std::string here = KeyAt(0);
  const std::string there = KeyAt(1);
  redis_[0]->SetSlow(milliseconds(4));
  redis_[1]->Hang();
  RecordingCheck& split = Submit({here, there});
  split.undoes = true;
  RunFor(Duration(100));  // it is in flight
  RecordingCheck& next = Make({here + "2"});
  loop_.Run([&] {
    store_->Submit(next);
    servers_.At(kAddresses[0]).breaker.Open("by another thread");
  });
  RunFor(milliseconds(5));
  EXPECT_EQ(Used(0, here), 1);
  EXPECT_EQ(split.place, -1) << "it is to be decided by both nodes";
  RunFor(milliseconds(20));
  EXPECT_TRUE(split.failure());
  redis_[1]->Resume();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Used(0, here), 0);
  EXPECT_EQ(Used(1, there), 0);
}

// One key of the piece has moved, so the piece is split again. Both of its parts fail in flight
// before the other node's piece is decided.
TEST_F(ThreadStoreTest, PieceIsSplitAgainAndRepliesLate_IsUndone) {
  const std::string stays = KeyAt(0);
  const std::string moved = KeyAt(0, 1);
  const std::string there = KeyAt(1);
  MoveSlot(moved);
  redis_[0]->SetSlow(milliseconds(3));
  redis_[1]->Hang();
  RecordingCheck& split = Submit({stays, moved, there});
  split.undoes = true;
  const auto has_sent = [this](int calls) {
    return metrics_.Render().find(fmt::format("script_calls_total {}\n", calls)) !=
           std::string::npos;
  };
  // The check's pieces, and the parts of one of them.
  for (int i = 0; i < 1'000 && !has_sent(4); ++i) RunFor(Duration(10));
  RecordingCheck& next = Make({stays + "2"});
  loop_.Run([&] {
    store_->Submit(next);
    servers_.At(kAddresses[0]).breaker.Open("by another thread");
  });
  while (Used(0, stays) == 0) RunFor(Duration(10));
  EXPECT_EQ(split.place, -1) << "it is to be decided by both nodes";
  RunFor(milliseconds(20));
  EXPECT_TRUE(split.failure());
  redis_[1]->Resume();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Used(0, stays), 0);
  EXPECT_EQ(Used(1, moved), 0);
  EXPECT_EQ(Used(1, there), 0);
}

TEST_F(ThreadStoreTest, SplitCheck_IsDecidedWithItsLastPiece) {
  redis_[1]->SetSlow(milliseconds(4));
  const RecordingCheck& split = Submit({KeyAt(0), KeyAt(1)});
  RunFor(milliseconds(8));
  ASSERT_FALSE(split.failure());
  EXPECT_LT(split.counters[0].decided_at, split.counters[1].decided_at);
  EXPECT_EQ(split.decided_at, split.counters[1].decided_at);
}

// The check is split by slot, so the piece whose key has moved is redirected at once.
TEST_F(ThreadStoreTest, CheckIsSplitAfterARedirect_TakesThreeRoundTrips) {
  constexpr int kChecks = 30;
  const SteadyTime begin = world_.now();
  for (int n = 1; n <= kChecks; ++n) {
    const std::string moved = KeyAt(0, n);
    MoveSlot(moved);
    const RecordingCheck& check = Submit({KeyAt(0) + std::to_string(n), moved});
    while (check.place == -1) RunFor(Duration(1));
    ASSERT_FALSE(check.failure());
  }
  constexpr Duration kRoundTrip(40);  // on average
  EXPECT_LT(world_.now() - begin, kChecks * (3 * kRoundTrip + kRoundTrip / 2));
}

TEST_F(ThreadStoreTest, LoopIsLateBeforeAndAfterASplit_TheCheckGetsMoreTimeOnce) {
  const std::string stays = KeyAt(0);
  const std::string moved = KeyAt(0, 1);
  MoveSlot(moved);
  redis_[0]->Hang();
  RecordingCheck& check = Submit({stays, moved});
  RunFor(Duration(100));  // it is in flight
  loop_.Stall(milliseconds(30));
  RunFor(milliseconds(31));
  EXPECT_EQ(check.place, -1) << "this process was late";
  redis_[0]->Resume();
  RunFor(Duration(25));  // until its reply is on the way
  redis_[0]->Hang();
  RunFor(Duration(200));  // the pieces are in flight
  loop_.Stall(milliseconds(30));
  RunFor(milliseconds(31));
  EXPECT_NE(check.place, -1) << "once only";
  redis_[0]->Resume();
  RunFor(std::chrono::seconds(1));
}

// A reply that arrives after the owner's answer may be a redirect.
TEST_F(ThreadStoreTest, CheckFailedAndItsKeyHasMoved_IsNotRunElsewhere) {
  const std::string key = KeyAt(0);
  redis_[0]->Hang();
  const RecordingCheck& check = Submit({key});
  RunFor(milliseconds(20));
  EXPECT_TRUE(check.failure());
  MoveSlot(key);
  redis_[0]->Resume();
  RunFor(std::chrono::seconds(1));
  EXPECT_EQ(Used(0, key) + Used(1, key), 0);
}

// Another node's answer says nothing about this one.
TEST_F(ThreadStoreTest, ProbeIsRedirected_DoesNotCloseTheBreaker) {
  redis::Breaker& breaker = servers_.At(kAddresses[0]).breaker;
  slots_.Replace(0, kAddresses[1]);
  breaker.Open("test");
  Submit({KeyAt(0)});
  for (int i = 0; i < 200; ++i) {
    RunFor(milliseconds(1));
    ASSERT_FALSE(breaker.closed());
  }
}

// The policy of the rule has admitted the check.
TEST_F(ThreadStoreTest, PieceRepliesLateAndTheOwnerKeepsIt_StaysCharged) {
  const std::string here = KeyAt(0);
  const std::string there = KeyAt(1);
  redis_[1]->Hang();
  const RecordingCheck& split = Submit({here, there});
  RunFor(milliseconds(20));
  EXPECT_TRUE(split.failure());
  redis_[1]->Resume();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Used(0, here), 1);
  EXPECT_EQ(Used(1, there), 1);
}

// A late part of a shadow rule may have been charged, so the other part stays, too.
TEST_F(ThreadStoreTest, PieceOfAShadowRuleFails_ItsOtherPieceStaysCharged) {
  const std::string here = KeyAt(0);
  RecordingCheck& split = Make({here, here + "2", KeyAt(1)});
  split.counters[1].group = split.counters[2].group = 1;
  redis_[1]->Hang();
  loop_.Run([&] { store_->Submit(split); });
  RunFor(milliseconds(20));
  EXPECT_TRUE(split.failure());
  RunFor(std::chrono::seconds(1));
  EXPECT_EQ(Used(0, here), 1);
  EXPECT_EQ(Used(0, here + "2"), 1);
}

// One of their counters has moved and the other has not, so the first check waits to be sent again.
// At whatever time the other one moves, the second check must not be decided before the first.
TEST_F(ThreadStoreTest, SlotMigrates_InOrderCheckWaitsBehindOneThatIsSentAgain) {
  std::size_t slot = 0;
  for (Duration moment(0); moment < Duration(500); moment += Duration(5)) {
    while (OwnerOf(KeyIn(slot)) != 0) ++slot;
    const std::string a = KeyIn(slot) + "a";
    const std::string b = KeyIn(slot) + "b";
    Submit({a, b});
    RunFor(milliseconds(5));
    slots_.BeginMove(a, 1);
    MoveKey(b);
    RecordingCheck& first = Make({a, b});
    RecordingCheck& equal = Make({a, b});
    RecordingCheck& second = Make({a, b});
    first.in_order = equal.in_order = second.in_order = true;
    second.counters.front().units = 2;  // so that it is not coalesced with them
    loop_.Run([&] {
      store_->Submit(first);
      store_->Submit(equal);
      store_->Submit(second);
    });
    RunFor(moment);
    MoveKey(a);
    slots_.EndMove(a);
    RunFor(milliseconds(15));
    EXPECT_FALSE(first.failure() || equal.failure() || second.failure());
    EXPECT_LE(first.decided_at, equal.decided_at) << moment.count();
    EXPECT_LT(equal.decided_at, second.decided_at) << moment.count();
    EXPECT_EQ(Used(1, a), 5);
  }
}

// Checks of several batches share the counters of a slot that migrates, counter by counter. Those
// of one batch are decided in order, also if checks of another batch wait to be sent again.
TEST_F(ThreadStoreTest, SlotMigrates_ChecksOfEachBatchAreDecidedInOrder) {
  std::mt19937 random(1);
  const auto up_to = [&](int most) { return std::uniform_int_distribution(0, most)(random); };
  std::size_t slot = 0;
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    while (OwnerOf(KeyIn(slot)) != 0) ++slot;
    const std::string keys[] = {KeyIn(slot) + "a", KeyIn(slot) + "b", KeyIn(slot) + "c"};
    Submit({keys[0], keys[1], keys[2]});
    RunFor(milliseconds(5));
    slots_.BeginMove(keys[0], 1);
    std::vector<std::vector<RecordingCheck*>> batches(9);
    for (std::size_t n = 0; n < batches.size(); ++n) {
      for (int i = 0; i < 4; ++i) {
        std::vector<std::string> uses = {keys[0]};
        if (up_to(2) == 0) uses.push_back(keys[1 + up_to(1)]);
        RecordingCheck& check = *batches[n].emplace_back(&Make(std::move(uses)));
        check.in_order = true;
        check.counters.front().units = 1 + up_to(1);
        check.leases_units = up_to(3) == 0;
        check.lease = {.id = {}, .ttl = kTimeout};
        for (auto& byte : check.lease->id) byte = static_cast<std::uint8_t>(up_to(255));
      }
      loop_.Run([&] {
        for (RecordingCheck* const check : batches[n]) store_->Submit(*check);
      });
      RunFor(Duration(up_to(300)));
      if (n % 3 == 1) MoveKey(keys[n / 3]);
    }
    slots_.EndMove(keys[0]);
    RunFor(milliseconds(20));
    for (const auto& batch : batches) {
      for (std::size_t i = 1; i < batch.size(); ++i) {
        if (batch[i - 1]->failure() || batch[i]->failure()) continue;
        EXPECT_LE(batch[i - 1]->decided_at, batch[i]->decided_at) << round;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

// The node finds that it does not have the counter of the first two, which share a call, while the
// third, in a call of its own, is queued behind them.
TEST_F(ThreadStoreTest, SlotMigrates_QueuedInOrderCheckWithLeaseDoesNotOvertake) {
  const std::string key = KeyAt(0);
  Submit({key});
  RunFor(milliseconds(5));
  slots_.BeginMove(key, 1);
  MoveKey(key);
  std::vector<RecordingCheck*> checks;
  for (int i = 0; i < 3; ++i) {
    RecordingCheck& check = *checks.emplace_back(&Make({key}));
    check.in_order = true;
    check.counters.front().units = 1 + i;  // so that they are not coalesced
  }
  checks.back()->leases_units = true;
  checks.back()->lease = {.id = {1}, .ttl = kTimeout};
  loop_.Run([&] {
    for (RecordingCheck* const check : checks) store_->Submit(*check);
  });
  RunFor(milliseconds(3));
  slots_.EndMove(key);
  RunFor(milliseconds(15));
  for (const RecordingCheck* const check : checks) EXPECT_FALSE(check->failure());
  EXPECT_LT(checks[0]->place, checks[1]->place);
  EXPECT_LT(checks[1]->place, checks[2]->place);
  EXPECT_LT(checks[1]->decided_at, checks[2]->decided_at);
}

// The counter is new, so the node that imports its slot refuses both checks until the slot has
// moved: at whatever time that is, the second check must not be decided before the first.
TEST_F(ThreadStoreTest, SlotMigrates_CheckFollowsTheOneThatIsAskedElsewhere) {
  redis_[0]->SetSlow(milliseconds(2));  // the other one replies before it
  std::size_t slot = 0;
  for (Duration moment(0); moment < milliseconds(6); moment += Duration(50)) {
    while (OwnerOf(KeyIn(slot)) != 0) ++slot;
    const std::string key = KeyIn(slot);
    slots_.BeginMove(key, 1);
    std::vector<RecordingCheck*> checks;
    for (std::uint8_t i = 1; i <= 2; ++i) {
      RecordingCheck& check = *checks.emplace_back(&Make({key}));
      check.in_order = check.leases_units = true;
      check.lease = {.id = {i}, .ttl = kTimeout};
    }
    loop_.Run([&] { store_->Submit(*checks[0]); });
    RunFor(Duration(1));  // it is in flight
    loop_.Run([&] { store_->Submit(*checks[1]); });
    RunFor(moment);
    slots_.EndMove(key);
    RunFor(milliseconds(15));
    EXPECT_EQ(checks[0]->counters.front().verdict.remaining, 9) << moment.count();
    EXPECT_EQ(checks[1]->counters.front().verdict.remaining, 8) << moment.count();
  }
}

// Two slots have moved. The store learns of the first, queues one piece of the first check again,
// and then learns of the second.
TEST_F(ThreadStoreTest, TwoSlotsHaveMoved_InOrderCheckWithLeaseDoesNotOvertakeAPiece) {
  const std::string keys[] = {KeyAt(0), KeyAt(0, 1)};
  for (const std::string& key : keys) {
    MoveSlot(key);
    RecordingCheck& shows_move = Make({key + "other"});
    shows_move.leases_units = true;
    shows_move.lease = {.id = {}, .ttl = kTimeout};
    loop_.Run([&] { store_->Submit(shows_move); });
  }
  Submit({KeyAt(0, 2)});
  RunFor(Duration(1));  // they are in flight, so the next checks without leases are queued
  std::vector<RecordingCheck*> checks;
  for (int i = 0; i < 3; ++i) {
    RecordingCheck& check = *checks.emplace_back(&Make({keys[0], keys[1]}));
    check.in_order = true;
    check.leases_units = i == 1;
    check.lease = {.id = {1}, .ttl = kTimeout};
  }
  loop_.Run([&] {
    for (RecordingCheck* const check : checks) store_->Submit(*check);
  });
  RunFor(milliseconds(5));
  for (std::size_t i = 0; i < checks.size(); ++i) {
    for (const CounterCheck& counter : checks[i]->counters) {
      EXPECT_EQ(counter.verdict.remaining, 9 - static_cast<std::int64_t>(i)) << counter.key;
    }
  }
}

// The redirect of another check shows the new owner while the first of two is in flight to the old
// one, and the second is queued behind it.
TEST_F(ThreadStoreTest, SlotHasMoved_QueuedInOrderCheckDoesNotOvertakeOneInFlight) {
  const std::string key = KeyAt(0);
  MoveSlot(key);
  RecordingCheck& other = Make({key + "other"});
  RecordingCheck& first = Make({key});
  RecordingCheck& second = Make({key});
  first.in_order = second.in_order = true;
  second.counters.front().units = 2;  // so that it is not coalesced with the first
  loop_.Run([&] {
    store_->Submit(other);
    store_->Submit(first);
    store_->Submit(second);
  });
  RunFor(milliseconds(15));
  EXPECT_FALSE(other.failure() || first.failure() || second.failure());
  EXPECT_LT(first.decided_at, second.decided_at);
}

// Two masters may do so if each believes that the other has won a failover. A settlement has no
// deadline that would end the redirects.
TEST_F(ThreadStoreTest, NodesNameEachOther_SettlementIsSentAgainAfterPauses) {
  const std::string key = KeyAt(0);
  for (const std::size_t node : {0, 1}) {
    redis_[node]->FailScripts(
        fmt::format("-MOVED {} {}\r\n", redis::SlotOf(key), kAddresses[1 - node].ToString()));
  }
  RecordingCheck& settlement = Make({key});
  settlement.demand.mode = Mode::kSettle;
  settlement.leases_units = true;
  settlement.lease = {.id = {1}, .ttl = kTimeout};
  loop_.Run([&] { EXPECT_TRUE(store_->Settle(settlement)); });
  RunFor(std::chrono::seconds(1));
  const std::int64_t calls = redis_[0]->calls() + redis_[1]->calls();
  EXPECT_GE(calls, 10);
  EXPECT_LE(calls, 100);
  EXPECT_EQ(store_->queued_settles(), 1u);
  for (auto& redis : redis_) redis->FailScripts({});
  RunFor(milliseconds(200));
  EXPECT_EQ(store_->queued_settles(), 0u);
}

// The caller repeats it, because it does not trust the answer that it is queued.
TEST_F(ThreadStoreTest, SettlementIsRepeatedWhileRedisIsAway_IsQueuedOnce_TheFirstCounts) {
  const std::string key = KeyAt(0);
  RecordingCheck& taken = Make({key});
  taken.counters[0].units = 5;
  taken.leases_units = true;
  taken.lease = {.id = {1}, .ttl = std::chrono::minutes(1)};
  loop_.Run([&] { store_->Submit(taken); });
  RunFor(milliseconds(5));
  ASSERT_TRUE(taken.admitted);
  redis_[0]->Kill();
  for (const std::int64_t used : {2, 0, 5}) {
    for (std::uint8_t lease = 1; lease <= 2; ++lease) {
      RecordingCheck& settlement = Make({key});
      settlement.counters[0].units = used;
      settlement.demand.mode = Mode::kSettle;
      settlement.leases_units = true;
      settlement.lease = {.id = {lease}, .ttl = std::chrono::minutes(1)};
      loop_.Run([&] { EXPECT_TRUE(store_->Settle(settlement)); });
      RunFor(milliseconds(50));
    }
  }
  EXPECT_EQ(store_->queued_settles(), 2u);
  EXPECT_TRUE(settled_.empty());
  redis_[0]->Start();
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(store_->queued_settles(), 0u);
  EXPECT_EQ(Used(0, key), 2);
  const std::vector<std::pair<LeaseId, Settled>> settled = {{LeaseId{1}, Settled::kSettled},
                                                            {LeaseId{2}, Settled::kNotFound}};
  EXPECT_EQ(settled_, settled);
}

TEST_F(ThreadStoreTest, LateTakeIsSettledWithNothing_IsNoSettlementOfACaller) {
  const std::string key = KeyAt(0);
  RecordingCheck& taken = Make({key});
  taken.leases_units = true;
  taken.lease = {.id = {1}, .ttl = std::chrono::minutes(1)};
  redis_[0]->Hang();
  loop_.Run([&] { store_->Submit(taken); });
  RunFor(milliseconds(15));
  ASSERT_EQ(taken.failure(), StoreFailure::kTimeout);
  redis_[0]->Resume();
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(Used(0, key), 0);
  ASSERT_EQ(undone_.size(), 1u);
  EXPECT_TRUE(settled_.empty());
}

// A call with the lease's record declares its keys, so others of the slot can be in it.
TEST_F(ThreadStoreTest, InOrderChecksWithAndWithoutLeases_ShareACall) {
  const std::string key = KeyAt(0);
  std::vector<RecordingCheck*> checks;
  for (int i = 0; i < 8; ++i) {
    RecordingCheck& check = *checks.emplace_back(&Make({key}));
    check.in_order = true;
    check.leases_units = i % 2 == 0;
    if (check.leases_units) check.lease = {.id = {static_cast<std::uint8_t>(i)}, .ttl = kTimeout};
  }
  loop_.Run([&] {
    for (RecordingCheck* const check : checks) store_->Submit(*check);
  });
  RunFor(milliseconds(15));
  for (const RecordingCheck* const check : checks) {
    EXPECT_TRUE(check->admitted);
    EXPECT_EQ(check->decided_at, checks.front()->decided_at) << "in one call";
  }
}

// A batch, and a check behind it.
TEST_F(ThreadStoreTest, InOrderChecksOfTwoSlots_TakeOneCallEach_InOrder) {
  const std::string keys[] = {KeyAt(0), KeyAt(0, 1)};
  RunFor(milliseconds(100));
  const std::int64_t calls = redis_[0]->calls();
  std::vector<RecordingCheck*> checks;
  for (std::uint8_t i = 0; i < 60; ++i) {
    RecordingCheck& check = *checks.emplace_back(&Make({keys[i % 2]}));
    check.in_order = check.leases_units = true;
    check.lease = {.id = {i}, .ttl = kTimeout};
  }
  RecordingCheck& last = Make({KeyAt(0, 2)});
  last.leases_units = true;
  last.lease = {.id = {100}, .ttl = kTimeout};
  loop_.Run([&] {
    for (RecordingCheck* const check : checks) store_->Submit(*check);
    store_->Submit(last);
  });
  RunFor(milliseconds(5));
  EXPECT_EQ(redis_[0]->calls() - calls, 3);
  EXPECT_TRUE(last.admitted);
  int places[] = {-1, -1};
  for (std::size_t i = 0; i < checks.size(); ++i) {
    EXPECT_EQ(checks[i]->admitted, i < 20) << i;
    EXPECT_GT(checks[i]->place, std::exchange(places[i % 2], checks[i]->place)) << i;
  }
}

}  // namespace
}  // namespace sluice::simulation
