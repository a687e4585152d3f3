// How a node coalesces and packs checks, iteration by iteration, and in which order it sends them.
#include "tests/store/node_test.h"

#include <gmock/gmock.h>

#include "base/hash.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(NodeTest, ChecksOfOneIteration_AreSentInOneCallAtItsEnd) {
  RunIteration([this] { SubmitDifferent(10, "k"); });
  EXPECT_THAT(Runs(), ElementsAre(10));
  Reply();
  EXPECT_EQ(answers_, 10);
  for (const auto& check : checks_) EXPECT_EQ(Remaining(*check), 9);
  EXPECT_THAT(Runs(), IsEmpty());
}

TEST_F(NodeTest, CallIsInFlight_ChecksAreQueuedUntilItsReply) {
  RunIteration([this] { Submit("a"); });
  RunIteration([this] { Submit("b"); });
  RunIteration([this] { Submit("c"); });
  RunIteration([this] { SubmitDifferent(3, "k"); });
  EXPECT_THAT(Runs(), ElementsAre(1));
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(5));
  Reply();
  EXPECT_EQ(answers_, 6);
}

// A few plain checks cost Redis less in separate calls than in one pack.
TEST_F(NodeTest, FewPlainChecks_AreSentAtOnceInSeparateCalls) {
  RunIteration([this] { SubmitDifferent(4, "k"); });
  EXPECT_THAT(Runs(), ElementsAre(1, 1, 1, 1));
  RunIteration([this] { SubmitDifferent(2, "gathered"); });
  for (int i = 0; i < 3; ++i) Reply();
  EXPECT_THAT(Runs(), ElementsAre(1)) << "one of the four calls is still in flight";
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(1, 1));
  while (!commands_.empty()) Reply();
  RunIteration([this] { SubmitDifferent(5, "k"); });
  EXPECT_THAT(Runs(), ElementsAre(5));
  Reply();
  EXPECT_EQ(answers_, 11);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Remaining(*checks_[i]), 9);
  for (int i = 6; i < 10; ++i) EXPECT_EQ(Remaining(*checks_[i]), 8);
}

TEST_F(NodeTest, FewChecksWithOneThatIsNotPlain_AreSentInOneCall) {
  const std::function<void(RecordingCheck&)> changes[] = {
      [](RecordingCheck& check) { check.demand.mode = Mode::kRefund; },
      [](RecordingCheck& check) { check.counters[0].group = 1; },
  };
  for (const auto& change : changes) {
    RunIteration([&] {
      Submit("plain");
      RecordingCheck& check = Make("other");
      change(check);
      node_->Submit(check);
    });
    EXPECT_THAT(Runs(), ElementsAre(2));
    EXPECT_EQ(ReplyToAll(), 2);
  }
}

// If an owner submits a check in OnDecided, that check is sent in the same iteration.
TEST_F(NodeTest, CheckSubmittedByAnAnswer_IsSentAtTheEndOfThatIteration) {
  RunIteration([this] { Submit("a").then = [this] { Submit("b"); }; });
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(1));
  Reply();
  EXPECT_EQ(answers_, 2);
}

TEST_F(NodeTest, FullPack_IsSentWhileOneCallIsInFlight_ThirdCallWaits) {
  RunIteration([this] { Submit("first"); });
  RunIteration([this] { SubmitDifferent(63, "k"); });
  EXPECT_THAT(Runs(), ElementsAre(1));
  RunIteration([this] { SubmitDifferent(70, "l"); });
  EXPECT_THAT(Runs(), ElementsAre(1, 64));
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(64, 64));
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(64)) << "the 5 checks that are left do not fill a pack";
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(5));
  Reply();
  EXPECT_EQ(answers_, 1 + 63 + 70);
}

TEST_F(NodeTest, EqualChecks_AreCoalescedAndAnsweredInOrder) {
  RunIteration([this] {
    for (int i = 0; i < 25; ++i) Submit("hot");
  });
  EXPECT_THAT(Runs(), ElementsAre(1));
  Reply();
  for (int i = 0; i < 25; ++i) {
    EXPECT_EQ(checks_[i]->place, i);
    EXPECT_EQ(checks_[i]->admitted, i < 10);
    EXPECT_EQ(Remaining(*checks_[i]), std::max(0, 9 - i));
  }
}

// All units are charged, even beyond the limit. Each check gets the answer of its position.
TEST_F(NodeTest, EqualCharges_AreCoalescedAndAnsweredInOrder) {
  const auto charge = [this](int n) {
    for (int i = 0; i < n; ++i) {
      RecordingCheck& check = Make("hot");
      check.counters[0].units = 3;
      check.demand.mode = Mode::kCharge;
      node_->Submit(check);
    }
  };
  RunIteration([&] { charge(5); });
  EXPECT_THAT(Runs(), ElementsAre(1));
  Reply();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(checks_[i]->place, i);
    EXPECT_EQ(checks_[i]->admitted, i < 3);
    EXPECT_EQ(checks_[i]->counters[0].verdict.admitted, i < 3);
    EXPECT_EQ(Remaining(*checks_[i]), std::max(0, 10 - 3 * (i + 1)));
  }
  RunIteration([this] {
    RecordingCheck& refund = Make("hot");
    refund.counters[0].units = 6;
    refund.demand.mode = Mode::kRefund;
    node_->Submit(refund);
  });
  Reply();
  EXPECT_EQ(Remaining(*checks_.back()), 1) << "15 were charged";
}

TEST_F(NodeTest, ChecksThatDifferInOneRespect_AreNotCoalesced) {
  static const Limit other_limit = kTen;
  const std::function<void(RecordingCheck&)> changes[] = {
      [](RecordingCheck& check) { check.counters[0].units = 2; },
      [](RecordingCheck& check) { check.demand.mode = Mode::kPeek; },
      [](RecordingCheck& check) { check.demand.max_wait = seconds(1); },
      [](RecordingCheck& check) { check.counters[0].limit = &other_limit; },
      [](RecordingCheck& check) { check.counters[0].group = 1; },
      [](RecordingCheck& check) { check.counters[0].key = "another"; },
  };
  for (const auto& change : changes) {
    RunIteration([&] {
      node_->Submit(Make("k"));
      RecordingCheck& other = Make("k");
      change(other);
      node_->Submit(other);
    });
    EXPECT_EQ(ReplyToAll(), 2);
  }
  // Here the kinds alternate. Equal checks are still coalesced, except those of kinds whose hashes
  // collide.
  const int kinds = static_cast<int>(std::size(changes));
  RunIteration([&] {
    for (int round = 0; round < 2; ++round) {
      for (const auto& change : changes) {
        RecordingCheck& check = Make("k");
        change(check);
        node_->Submit(check);
      }
    }
  });
  EXPECT_THAT(Runs(), ElementsAre(testing::AllOf(testing::Ge(kinds), testing::Lt(2 * kinds))));
}

TEST_F(NodeTest, EqualChecksOfRareKinds_AreNotCoalesced) {
  static const Limit slots = Concurrency{.limit = 5, .ttl = seconds(1)};
  static const Limit warming = WarmingBucket{.rate = 1, .period = seconds(1), .warmup = seconds(1)};
  RunIteration([&] {
    for (int i = 0; i < 2; ++i) {
      RecordingCheck& refund = Make("refund");
      refund.demand.mode = Mode::kRefund;
      RecordingCheck& holder = Make("slots");
      holder.counters[0].limit = &slots;
      holder.lease = Lease{.ttl = seconds(1)};
      RecordingCheck& warm = Make("warm");
      warm.counters[0].limit = &warming;
      for (RecordingCheck* check : {&refund, &holder, &warm}) node_->Submit(*check);
    }
  });
  EXPECT_THAT(Runs(), ElementsAre(6));
  Reply();
  for (const auto& check : checks_) EXPECT_FALSE(check->failure());
}

// The third check equals the first. If it were coalesced with the first, it would be decided before
// the second.
TEST_F(NodeTest, InOrderCheck_IsNotCoalescedPastACheckThatSharesACounter) {
  for (const bool in_order : {true, false}) {
    checks_.clear();
    RunIteration([&] {
      for (const std::int64_t cost : {1, 2, 1}) {
        RecordingCheck& check = Make(in_order ? "k" : "l");
        check.counters[0].units = cost;
        check.in_order = in_order;
        node_->Submit(check);
      }
    });
    if (in_order) {
      EXPECT_THAT(Runs(), ElementsAre(3));
    } else {
      EXPECT_THAT(Runs(), ElementsAre(1, 1));
    }
    while (!commands_.empty()) Reply();
    EXPECT_EQ(Remaining(*checks_[2]), in_order ? 6 : 8);
  }
}

// If the packs of both checks were in flight and the script were missing for the first pack only,
// the second pack would be decided before the first.
TEST_F(NodeTest, InOrderCheck_WaitsForTheReplyToAnEarlierCheckOfItsCounter) {
  const auto submit = [this](const std::string& key, std::int64_t cost) {
    RecordingCheck& check = Make(key);
    check.in_order = true;
    check.counters[0].units = cost;
    node_->Submit(check);
  };
  RunIteration([&] { submit("shared", 1); });
  // The queue identifies counters by their hashes modulo 1024. So no other key may have the same
  // hash modulo 1024 as "shared".
  int number = 0;
  const auto submit_others = [&] {
    for (int submitted = 0; submitted < 40; ++number) {
      const std::string key = "k" + std::to_string(number);
      if (Hash(key) % 1024 == Hash("shared") % 1024) continue;
      submit(key, 1);
      ++submitted;
    }
  };
  RunIteration([&] {
    submit_others();
    submit("shared", 2);
    submit_others();
  });
  EXPECT_THAT(Runs(), ElementsAre(1, 40)) << "the checks before the second \"shared\" may be sent";
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(40));
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(41));
  Reply();
  EXPECT_EQ(Remaining(*checks_[0]), 9);
  EXPECT_EQ(Remaining(*checks_[41]), 7);
}

// More checks are submitted than the queue's tables have slots. Meanwhile, earlier checks are
// answered or time out.
TEST_F(NodeTest, ThousandsOfChecks_EachIsAnsweredOnce) {
  for (int round = 0; round < 20; ++round) {
    RunIteration([&] {
      for (int i = 0; i < 200; ++i) {
        RecordingCheck& check = Make("k" + std::to_string(i % 90));
        check.deadline =
            i % 7 == 0 ? loop_.now() + std::chrono::milliseconds(1) : seconds(9) + loop_.now();
        node_->Submit(check);
      }
    });
    if (round % 3 == 0) RunIteration({}, std::chrono::milliseconds(1));
    if (!commands_.empty()) Reply();
  }
  while (!commands_.empty()) Reply();
  EXPECT_EQ(answers_, 20 * 200);
  for (const auto& check : checks_) EXPECT_EQ(check->answered, 1);
}

TEST_F(NodeTest, MoreChecksThanMayWait_TheExcessIsRefusedAtOnce) {
  Begin({.max_pending = 5});
  RunIteration([this] { SubmitDifferent(6, "k"); });
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(checks_[5]->failure(), StoreFailure::kOverloaded);
  Reply();
  EXPECT_EQ(answers_, 6);
  RunIteration([this] { Submit("k"); });
  EXPECT_EQ(answers_, 6);
}

// If failed checks counted as waiting, a server would refuse all checks after an outage.
TEST_F(NodeTest, ChecksThatFailed_DoNotCountAsWaiting) {
  Begin({.max_pending = 5});
  RunIteration([this] { SubmitDifferent(20, "refused"); });
  Reply();
  RunIteration([this] {
    for (int i = 0; i < 20; ++i) {
      RecordingCheck& check = Make("late already");
      check.deadline = loop_.now();
      node_->Submit(check);
    }
  });
  RunIteration([this] { Submit("k"); });
  EXPECT_THAT(Runs(), ElementsAre(1));
}

TEST_F(NodeTest, CostlyChecks_AreSentInSmallerCalls) {
  static const Limit log = SlidingLog{.limit = 5, .window = seconds(1)};
  RunIteration([this] {
    for (int i = 0; i < 40; ++i) {
      RecordingCheck& check = Make("log" + std::to_string(i));
      check.counters[0].limit = &log;
      node_->Submit(check);
    }
  });
  for (const int runs : {16, 16, 8}) {
    ASSERT_THAT(Runs(), ElementsAre(runs));
    Reply();
  }
  EXPECT_EQ(answers_, 40);
}

TEST_F(NodeTest, Stop_FailsChecksInFlightAndQueued) {
  RunIteration([this] { Submit("sent"); });
  RunIteration([this] { Submit("gathered").then = [this] { Submit("late"); }; });
  RunIteration([this] { node_->Stop(); });
  ASSERT_EQ(answers_, 3);
  EXPECT_EQ(checks_[0]->failure(), StoreFailure::kTimeout);
  EXPECT_EQ(checks_[1]->failure(), StoreFailure::kUnreachable);
  EXPECT_EQ(checks_[2]->failure(), StoreFailure::kUnreachable);
}

}  // namespace
}  // namespace sluice::test
