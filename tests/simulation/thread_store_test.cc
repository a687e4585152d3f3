// Lost nodes, late replies, splits and undos.
#include "tests/simulation/thread_store_test.h"

#include <fmt/format.h>

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;

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

TEST_F(ThreadStoreTest, CheckIsDeniedByOneNode_UndosOnTheOtherNodeAreReported) {
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

TEST_F(ThreadStoreTest, CheckIsDeniedByOneNode_GrantOfTheOtherNodeIsKept) {
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

// The return makes units free. The report of an undo tells the listener that earlier denials may be
// outdated.
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
  EXPECT_EQ(grants_undone_, 0) << "a return must get no grant";
}

// Two failovers: the node hangs, loses its slots, gets them back, and then runs the check. The
// caller was answered long before.
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
  EXPECT_EQ(Used(0, key), 1) << "the node must run the check late";
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Used(0, key), 0);
}

// The node loses its slots and gets them back before the store has removed the node's old
// connections.
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

// During the undo, the store learns that one of the keys has moved to a node that does not answer.
TEST_F(ThreadStoreTest, UndoIsSplitAndAPieceFails_TheOtherPieceIsNotRunTwice) {
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

// Another io thread opens the breaker of one node, so the piece in flight to that node fails. The
// late reply to this piece arrives before the other node's piece is decided.
TEST_F(ThreadStoreTest, PieceIsAnsweredLateBeforeTheOthersAreDecided_IsUndone) {
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
  EXPECT_EQ(split.place, -1) << "the other node's piece is not decided yet";
  RunFor(milliseconds(20));
  EXPECT_TRUE(split.failure());
  redis_[1]->Resume();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Used(0, here), 0);
  EXPECT_EQ(Used(1, there), 0);
}

// The check has a piece for each node. One key of the first node's piece has moved, so this piece
// is split again. Both of its parts fail in flight before the other node's piece is decided.
TEST_F(ThreadStoreTest, PieceIsSplitAgainAndAnsweredLate_IsUndone) {
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
  // 4 calls: the check's 2 pieces, and the 2 parts of the piece that is split again.
  for (int i = 0; i < 1'000 && !has_sent(4); ++i) RunFor(Duration(10));
  RecordingCheck& next = Make({stays + "2"});
  loop_.Run([&] {
    store_->Submit(next);
    servers_.At(kAddresses[0]).breaker.Open("by another thread");
  });
  while (Used(0, stays) == 0) RunFor(Duration(10));
  EXPECT_EQ(split.place, -1) << "the other node's piece is not decided yet";
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

TEST_F(ThreadStoreTest, LoopIsLateBeforeAndAfterASplit_CheckGetsMoreTimeOnlyOnce) {
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
  RunFor(Duration(25));  // until the reply is on its way
  redis_[0]->Hang();
  RunFor(Duration(200));  // the pieces are in flight
  loop_.Stall(milliseconds(30));
  RunFor(milliseconds(31));
  EXPECT_NE(check.place, -1) << "more time only once";
  redis_[0]->Resume();
  RunFor(std::chrono::seconds(1));
}

// The reply to the check is a redirect and comes after the caller was answered.
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

// The probe is redirected, and another node answers it. This does not show that the first node
// works.
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

// The policy of the rule admitted the check, so the check stays charged.
TEST_F(ThreadStoreTest, PieceIsAnsweredLateAndTheCheckWasAdmitted_StaysCharged) {
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

// The shadow rule's piece that fails may have been charged, so the other piece of the rule stays
// charged, too.
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

// During a failover, two masters may redirect to each other. A settlement has no deadline that
// would end the redirects.
TEST_F(ThreadStoreTest, NodesRedirectToEachOther_SettlementIsSentAgainAfterPauses) {
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

// The caller repeats a settlement whose answer was OUTCOME_QUEUED.
TEST_F(ThreadStoreTest, SettlementIsRepeatedWhileRedisIsUnavailable_IsQueuedOnce_TheFirstApplies) {
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

TEST_F(ThreadStoreTest, LateCheckIsSettledWithNothing_IsNotReportedAsASettlementOfACaller) {
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

}  // namespace
}  // namespace sluice::simulation
