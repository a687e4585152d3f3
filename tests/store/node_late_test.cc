// Checks that failed before Redis replied: charges and grants of late replies, and leases without a
// holder.
#include <gmock/gmock.h>

#include "tests/store/node_test.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::IsEmpty;

class NodeLate : public NodeTest, private StoreListener {
 protected:
  NodeLate() { Begin({.silence = std::chrono::seconds(1), .listener = this}); }

  // Sends a check that fails before Redis answers. If `undo` is true, a charge in the late reply is
  // undone.
  RecordingCheck& TimeOut(std::string key, bool undo = false) {
    RecordingCheck* timed_out = nullptr;
    RunIteration([&] {
      timed_out = &Make(std::move(key));
      RecordingCheck& check = *timed_out;
      check.deadline = loop_.now() + milliseconds(5);
      check.then = [&check, undo] {
        ASSERT_TRUE(check.undo_late);
        if (undo) check.undo_late();
      };
      node_->Submit(check);
    });
    RunIteration({}, milliseconds(7));
    EXPECT_EQ(timed_out->failure(), StoreFailure::kTimeout);
    return *timed_out;
  }

  RecordingCheck& MakeHolder(std::string key, std::uint8_t number) {
    RecordingCheck& check = Make(std::move(key));
    check.counters[0].limit = &slots_;
    check.lease = Lease{.ttl = minutes(60)};
    check.lease->id.fill(number);
    return check;
  }

  std::int64_t RemainingNow(const std::string& key, const Limit& limit) {
    RecordingCheck& check = Make(key);
    check.demand.mode = Mode::kPeek;
    check.counters[0].limit = &limit;
    RunIteration([&] { node_->Submit(check); });
    while (!commands_.empty()) Reply();
    EXPECT_FALSE(check.failure());
    return Remaining(check);
  }

  std::vector<std::int64_t> late_;    // the remaining units after each late answer
  std::vector<std::int64_t> undone_;  // the remaining units after each undo
  std::size_t undos_started_ = 0;
  const Limit slots_ = Concurrency{.limit = 5, .ttl = minutes(60)};

 private:
  void OnPartLost(std::size_t) override {}
  void OnPartFound(std::size_t) override {}
  void OnLateAnswer(const StoreCheck& check) override { late_.push_back(Remaining(check)); }
  void OnUndoStarted(const StoreCheck&) override { ++undos_started_; }
  void OnUndoEnded(const StoreCheck& undo) override { undone_.push_back(Remaining(undo)); }
  void OnSettled(const StoreCheck&) override {}
};

// Nobody holds the grant of a check that has failed.
TEST_F(NodeLate, GrantInALateReply_IsReturned) {
  const Limit large = FixedWindow{.limit = 800, .window = minutes(60)};
  RunIteration([&] {
    RecordingCheck& check = Make("k");
    check.deadline = loop_.now() + milliseconds(5);
    check.counters[0].limit = &large;
    check.counters[0].wanted = {.units = 50, .life = std::chrono::seconds(10)};
    check.concerns_grants = true;
    node_->Submit(check);
  });
  RunIteration({}, milliseconds(7));
  checks_.clear();
  Reply();
  ASSERT_EQ(commands_.size(), 1u);
  EXPECT_EQ(RemainingNow("k", large), 799);
}

TEST_F(NodeLate, ReplyAfterTheDeadline_IsReported_ChargeStays) {
  TimeOut("k");
  checks_.clear();  // the owner may destroy the check now
  Reply();
  EXPECT_THAT(late_, ElementsAre(9));
  EXPECT_EQ(RemainingNow("k", limit_), 9);
  EXPECT_THAT(metrics_.Render(), testing::HasSubstr("sluice_redis_late_answers_total 1"));
}

TEST_F(NodeLate, TimedOutCheckIsReused_CountsAsWaitingOnlyWhileItWaits) {
  Begin({.max_pending = 5, .silence = std::chrono::seconds(1)});
  RecordingCheck& check = TimeOut("k");
  Reply();
  check.then = nullptr;
  for (int i = 0; i < 20; ++i) {
    RunIteration([&] {
      check.deadline = loop_.now();
      node_->Submit(check);
    });
    EXPECT_EQ(check.failure(), StoreFailure::kUnsent);
  }
  EXPECT_EQ(RemainingNow("k", limit_), 9);
}

// The owner of the check already has another answer.
TEST_F(NodeLate, RedirectOfATimedOutCheck_IsNotFollowed) {
  clustered_ = true;
  Begin({});
  const RecordingCheck& answered = Submit("other");
  TimeOut("k");
  for (std::size_t i = commands_.size(); i > 0; --i) Receive("-MOVED 1 127.0.0.1:1\r\n");
  EXPECT_EQ(redirected_.size(), 1u);
  EXPECT_EQ(answered.answered, 0);
}

TEST_F(NodeLate, CheckIsDeniedWithoutRedis_ChargeInTheLateReplyIsUndone) {
  TimeOut("k", true);
  checks_.clear();
  Reply();
  EXPECT_THAT(late_, ElementsAre(9));
  EXPECT_EQ(RemainingNow("k", limit_), 10);
  EXPECT_EQ(undos_started_, 1u);
  EXPECT_THAT(undone_, ElementsAre(10));
}

TEST_F(NodeLate, ScriptMissingAfterTheOwnerHasLeft_NothingIsChargedOrReported) {
  TimeOut("k", true);
  redis_.Ask({"SCRIPT", "FLUSH"});
  Reply();
  EXPECT_THAT(commands_, IsEmpty());
  EXPECT_THAT(late_, IsEmpty());
}

TEST_F(NodeLate, LeaseGrantedTooLate_IsReleasedWithTheReply) {
  RunIteration([&] {
    for (std::uint8_t i = 0; i < 20; ++i) {
      RecordingCheck& check = MakeHolder("slots", i);
      check.deadline = loop_.now() + milliseconds(5);
      node_->Submit(check);
    }
  });
  RunIteration({}, milliseconds(7));
  EXPECT_EQ(answers_, 20);
  checks_.clear();
  while (!commands_.empty()) Reply();
  EXPECT_EQ(RemainingNow("slots", slots_), 5);
}

TEST_F(NodeLate, LeaseDeniedTooLate_HasNothingToRelease) {
  for (std::uint8_t number = 1; number <= 5; ++number) {
    RunIteration([&] { node_->Submit(MakeHolder("slots", number)); });
    Reply();
  }
  RunIteration([this] {
    RecordingCheck& late = MakeHolder("slots", 6);
    late.deadline = loop_.now() + milliseconds(5);
    node_->Submit(late);
  });
  RunIteration({}, milliseconds(7));
  EXPECT_EQ(checks_.back()->failure(), StoreFailure::kTimeout);
  Reply();
  EXPECT_THAT(commands_, IsEmpty());
}

// The holder was told that the lease is valid for its whole ttl.
TEST_F(NodeLate, LeaseRenewedTooLate_IsKept) {
  RunIteration([&] { node_->Submit(MakeHolder("slots", 1)); });
  Reply();
  RecordingCheck& renewal = MakeHolder("slots", 1);
  renewal.demand.mode = Mode::kRenew;
  RunIteration([&] {
    renewal.deadline = loop_.now() + milliseconds(5);
    node_->Submit(renewal);
  });
  RunIteration({}, milliseconds(7));
  EXPECT_EQ(renewal.failure(), StoreFailure::kTimeout);
  while (!commands_.empty()) Reply();
  EXPECT_EQ(RemainingNow("slots", slots_), 4);
}

// A server granted a lease in an outage and reports it afterward. If the report is answered late,
// the holder keeps the lease, and the report is repeated. Here the late reply arrives while the
// breaker is open, and then another thread closes the breaker. If the late reply released the
// lease, the release would be sent after the second report.
TEST_F(NodeLate, LeaseReportedTooLate_IsKept) {
  const auto report = [&]() -> RecordingCheck& {
    RecordingCheck& check = MakeHolder("slots", 1);
    check.demand.mode = Mode::kCharge;
    return check;
  };
  RecordingCheck& first = report();
  RunIteration([&] {
    first.deadline = loop_.now() + milliseconds(5);
    node_->Submit(first);
  });
  RunIteration({}, milliseconds(7));
  EXPECT_EQ(first.failure(), StoreFailure::kTimeout);
  shared_.breaker.Open("test");
  Reply();
  ASSERT_TRUE(shared_.breaker.TakeProbe());
  shared_.breaker.OnProbe(true);
  RecordingCheck& second = report();
  RunIteration([&] { node_->Submit(second); });
  Reply();
  EXPECT_FALSE(second.failure());
  RunIteration({}, milliseconds(200));
  while (!commands_.empty()) Reply();
  EXPECT_EQ(RemainingNow("slots", slots_), 4);
}

TEST_F(NodeLate, ConnectionLostBeforeTheReply_LeasesAreReleasedWhenItIsBack) {
  RunIteration([&] {
    for (std::uint8_t i = 0; i < 5; ++i) node_->Submit(MakeHolder("slots", i));
  });
  TakeReply();  // Redis has decided, but no caller is told
  Receive("HTTP/1.1 400 Bad Request\r\n");
  EXPECT_EQ(answers_, 5);
  checks_.clear();
  LogIn();
  EXPECT_EQ(RemainingNow("slots", slots_), 5);
  EXPECT_THAT(metrics_.Render(), testing::HasSubstr("sluice_redis_unknown_outcomes_total 5"));
}

// A charge must not be undone twice; a lease may be released repeatedly.
TEST_F(NodeLate, ConnectionLostWhileUndoing_ChargesStayAndLeasesAreReleased) {
  RecordingCheck& charged = Make("k");
  RecordingCheck& holder = MakeHolder("slots", 1);
  RunIteration([&] {
    node_->Submit(charged);
    node_->Submit(holder);
  });
  while (!commands_.empty()) Reply();
  RunIteration([&] {
    settler_->Undo(charged);
    settler_->Undo(holder);
  });
  commands_.clear();  // Redis receives none of the undos
  Receive("HTTP/1.1 400 Bad Request\r\n");
  LogIn();
  EXPECT_EQ(RemainingNow("slots", slots_), 5);
  EXPECT_EQ(RemainingNow("k", limit_), 9);
  EXPECT_THAT(metrics_.Render(), testing::HasSubstr("sluice_redis_lost_undos_total 1"));
}

TEST_F(NodeLate, ReleaseIsRefused_IsRepeated) {
  RecordingCheck& holder = MakeHolder("slots", 1);
  RunIteration([&] { node_->Submit(holder); });
  Reply();
  RunIteration([&] { settler_->Undo(holder); });
  commands_.clear();
  Receive("-OOM command not allowed when used memory > 'maxmemory'.\r\n");
  EXPECT_THAT(commands_, IsEmpty());
  RunIteration({}, milliseconds(200));
  while (!commands_.empty()) Reply();
  EXPECT_EQ(RemainingNow("slots", slots_), 5);
}

// The caller has a place in the queue. Another caller waits behind this place, so the place cannot
// be given back.
TEST_F(NodeLate, UndoThatCannotGiveBack_IsCountedAsLost) {
  const Limit queue = LeakyBucket{.rate = 1, .period = minutes(1), .queue = 5};
  for (int i = 0; i < 2; ++i) {
    RecordingCheck& check = Make("k");
    check.counters[0].limit = &queue;
    check.demand.max_wait = minutes(5);
    RunIteration([&] { node_->Submit(check); });
    Reply();
    ASSERT_TRUE(check.admitted);
  }
  RunIteration([&] { settler_->Undo(*checks_.front()); });
  Reply();
  EXPECT_THAT(metrics_.Render(), testing::HasSubstr("sluice_redis_lost_undos_total 1\n"));
}

TEST_F(NodeLate, UndosWithoutAConnection_AreBounded_TheExcessIsCountedAsLost) {
  RunIteration([this] { Submit("k"); });
  Reply();
  const RecordingCheck& charged = *checks_.back();
  Receive("HTTP/1.1 400 Bad Request\r\n");
  RunIteration([&] {
    for (int i = 0; i < 10'003; ++i) settler_->Undo(charged);
  });
  EXPECT_THAT(metrics_.Render(), testing::HasSubstr("sluice_redis_lost_undos_total 3\n"));
}

TEST_F(NodeLate, UndoWithoutAConnection_IsDoneWhenTheConnectionIsBack) {
  RecordingCheck& charged = Make("k");
  RunIteration([&] { node_->Submit(charged); });
  Reply();
  Receive("HTTP/1.1 400 Bad Request\r\n");
  RunIteration([&] { settler_->Undo(charged); });
  LogIn();
  EXPECT_EQ(RemainingNow("k", limit_), 10);
}

TEST_F(NodeLate, UndoIsQueuedWhenTheBreakerOpens_IsDoneAfterward) {
  RecordingCheck& charged = Make("k");
  RunIteration([&] { node_->Submit(charged); });
  Reply();
  RunIteration([this] { Submit("slow"); });
  RunIteration([&] { settler_->Undo(charged); });
  RunIteration({}, milliseconds(11));
  ASSERT_FALSE(shared_.breaker.closed());
  EXPECT_EQ(commands_.size(), 1u) << "the undo was not sent";
  Reply();
  for (int i = 0; i < 300; ++i) {
    RunIteration({}, milliseconds(1));
    while (!commands_.empty()) Reply();
  }
  EXPECT_EQ(RemainingNow("k", limit_), 10);
  EXPECT_EQ(undos_started_, 1u);
  EXPECT_THAT(undone_, ElementsAre(10));
}

TEST_F(NodeLate, ProbeIsAnsweredTooLate_IsNotReported) {
  shared_.breaker.Open("test");
  RunIteration([this] { Submit("k"); });
  while (commands_.empty()) RunIteration({}, milliseconds(1));
  RunIteration({}, milliseconds(11));
  ASSERT_EQ(commands_.size(), 1u);
  Reply();
  EXPECT_THAT(late_, IsEmpty());
  EXPECT_THAT(metrics_.Render(), testing::HasSubstr("sluice_redis_late_answers_total 0\n"));
}

}  // namespace
}  // namespace sluice::test
