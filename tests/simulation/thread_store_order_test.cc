// In-order checks are decided in order, even while slots move.
#include "tests/simulation/thread_store_test.h"

#include <random>

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;

// One check is in flight to the node when a layout takes the node's slots away. The check is then
// sent again.
TEST_F(ThreadStoreTest, NodeRetiresWithAnInOrderCheckInFlight_NextCheckWaitsForIt) {
  const std::string key = KeyAt(0);
  redis_[0]->SetSlow(milliseconds(4));
  RecordingCheck& first = Submit({key}, true);
  RunFor(Duration(100));  // the first check is in flight
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

// Each check has two counters. One has moved and the other has not, so the first check waits to be
// sent again. No matter when the other counter moves, the second check must not be decided before
// the first.
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
    second.counters.front().units = 2;  // so that it is not coalesced with the others
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

// A slot migrates counter by counter, and checks of several batches use its counters. The checks of
// each batch are decided in order, even if checks of another batch wait to be sent again.
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

// The first two checks share a call, and the node does not have their counter. Meanwhile the third
// check is queued behind them, in a call of its own.
TEST_F(ThreadStoreTest, SlotMigrates_InOrderCheckWithALease_DoesNotOvertake) {
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
// moved. No matter when the slot moves, the second check must not be decided before the first.
TEST_F(ThreadStoreTest, SlotMigrates_InOrderCheckWaitsForOneThatIsSentToAnotherNode) {
  redis_[0]->SetSlow(milliseconds(2));  // the other node replies before this node
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

// Two slots have moved. The store learns that one has moved, queues one piece of the first check
// again, and then learns that the other has moved.
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
  RunFor(Duration(1));  // 3 checks are in flight, so the next checks without leases are queued
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
      EXPECT_EQ(counter.verdict.remaining, 9 - static_cast<std::int64_t>(i))
          << std::string_view(counter.key);
    }
  }
}

// The first of two checks is in flight to the old owner, and the second is queued behind it. Then
// the redirect of another check shows the new owner.
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

// A call that declares the key of a lease's record can also carry other checks of the slot.
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

// A batch of checks of two slots takes one call for each slot. The check behind the batch takes a
// third call.
TEST_F(ThreadStoreTest, InOrderChecksOfTwoSlots_TakeOneCallPerSlot_InOrder) {
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
