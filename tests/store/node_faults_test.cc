// The behavior of a node, iteration by iteration, when Redis is late, replies wrongly or
// disconnects.
#include "tests/store/node_test.h"

#include <gmock/gmock.h>

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class NodeFaults : public NodeTest {
 protected:
  RecordingCheck& SubmitFor(std::string key, Duration time) {
    RecordingCheck& check = Make(std::move(key));
    check.deadline = loop_.now() + time;
    node_->Submit(check);
    return check;
  }

  void SubmitUntilCallerLeaves(std::string key, Duration time) {
    RecordingCheck& check = Make(std::move(key));
    check.deadline = check.last_deadline = loop_.now() + time;
    node_->Submit(check);
  }

  // Expects that the connection works: a check is answered.
  void ExpectServing() {
    const int before = answers_;
    RunIteration([this] { Submit("serving" + std::to_string(checks_.size())); });
    ASSERT_FALSE(commands_.empty());
    while (!commands_.empty()) Reply();
    EXPECT_EQ(answers_, before + 1);
    EXPECT_FALSE(checks_.back()->failure());
  }
};

TEST_F(NodeFaults, DeadlineOfACheck_FailsOnlyThatCheck) {
  RunIteration([this] {
    SubmitFor("a", milliseconds(10));
    SubmitFor("b", milliseconds(40));
    SubmitFor("a", milliseconds(40));
  });
  RunIteration([this] { SubmitFor("gathered", milliseconds(8)); });
  RunIteration({}, milliseconds(9));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(checks_[3]->failure(), StoreFailure::kUnsent);
  RunIteration({}, milliseconds(2));
  EXPECT_EQ(answers_, 2);
  EXPECT_EQ(checks_[0]->failure(), StoreFailure::kTimeout);
  checks_[0].reset();  // the owner may destroy a failed check
  while (!commands_.empty()) Reply();
  EXPECT_EQ(Remaining(*checks_[1]), 9);
  EXPECT_EQ(Remaining(*checks_[2]), 8) << "the failed check was charged first";
  EXPECT_THAT(Runs(), IsEmpty());
}

TEST_F(NodeFaults, CheckWhoseDeadlineHasPassed_IsNotSent) {
  RunIteration([this] { SubmitFor("a", milliseconds(0)); });
  EXPECT_EQ(checks_[0]->failure(), StoreFailure::kUnsent);
  EXPECT_THAT(Runs(), IsEmpty());
}

TEST_F(NodeFaults, CallersDeadline_IsNoFailureOfRedis) {
  RunIteration([this] { SubmitUntilCallerLeaves("sent", milliseconds(5)); });
  RunIteration([this] {
    SubmitUntilCallerLeaves("gathered", milliseconds(5));
    SubmitUntilCallerLeaves("late already", milliseconds(0));
  });
  EXPECT_EQ(answers_, 1);
  RunIteration({}, milliseconds(7));
  EXPECT_EQ(answers_, 3);
  for (const auto& check : checks_) EXPECT_EQ(check->failure(), StoreFailure::kCallerTimeout);
}

// If the caller's deadline counted as a failure of the store, the failure policy would decide, and
// might admit the check.
TEST_F(NodeFaults, ExhaustedLimit_DeadlineOfMicroseconds_NeverAdmits) {
  for (int i = 0; i < 10; ++i) {
    RunIteration([this] { Submit("k"); });
    Reply();
  }
  for (int i = 0; i < 5; ++i) {
    RunIteration([&] { SubmitUntilCallerLeaves("k", Duration(i)); });
    while (!commands_.empty()) Reply();
    RunIteration({}, milliseconds(2));
    EXPECT_EQ(checks_.back()->answered, 1);
    EXPECT_FALSE(checks_.back()->admitted);
    EXPECT_NE(checks_.back()->failure(), StoreFailure::kTimeout);
    EXPECT_NE(checks_.back()->failure(), StoreFailure::kUnsent);
  }
}

TEST_F(NodeFaults, LateLoop_RestartsTheTimeoutOnce) {
  Begin({.timeout = milliseconds(10), .silence = seconds(1)});
  RunIteration([this] {
    SubmitFor("a", milliseconds(10));
    SubmitFor("b", milliseconds(10)).last_deadline = loop_.now() + milliseconds(18);
  });
  RunIteration([this] { SubmitFor("gathered", milliseconds(10)); });
  RunIteration({}, milliseconds(16));
  EXPECT_EQ(answers_, 0) << "the loop was late, not Redis";
  RunIteration({}, milliseconds(3));
  EXPECT_EQ(answers_, 1) << "nobody waits for a check after its last deadline";
  EXPECT_EQ(checks_[1]->failure(), StoreFailure::kCallerTimeout);
  RunIteration({}, milliseconds(20));
  ASSERT_EQ(answers_, 3) << "the timeout is restarted only once";
  EXPECT_EQ(checks_[0]->failure(), StoreFailure::kTimeout);
}

// If the loop is late, for example because the process was suspended, this does not show that Redis
// was silent.
TEST_F(NodeFaults, LateLoop_DoesNotCountAsSilenceOfTheServer) {
  Begin({.timeout = milliseconds(10), .silence = milliseconds(50)});
  RunIteration([this] { Submit("a"); });
  RunIteration({}, milliseconds(60));
  EXPECT_TRUE(Ready());
  RunIteration({}, milliseconds(60));
  EXPECT_FALSE(shared_.breaker.closed()) << "the timeout is restarted only once";
}

TEST_F(NodeFaults, LateLoopTwice_RestartsTheTimeoutOfACheckOnce) {
  Begin({.timeout = milliseconds(100), .silence = seconds(10)});
  RunIteration([this] { SubmitFor("a", milliseconds(10)); });
  RunIteration({}, milliseconds(70));
  EXPECT_EQ(answers_, 0);
  RunIteration({}, milliseconds(170));
  EXPECT_EQ(answers_, 1);
}

// A reset that counts its answers.
class RecordingReset final : public StoreReset {
 public:
  RecordingReset(std::string_view key, SteadyTime until) {
    keys = {key};
    deadline = until;
  }
  int answers = 0;

 private:
  void OnReset() override { ++answers; }
};

TEST_F(NodeFaults, UnansweredReset_FailsOnceAtItsDeadline) {
  Begin({.timeout = seconds(1), .silence = seconds(1)});
  RecordingReset reset("k", loop_.now() + milliseconds(20));
  RunIteration([&] {
    SubmitFor("a", milliseconds(5));
    node_->Reset(reset);
  });
  RunIteration({}, milliseconds(6));  // the timer is set again
  EXPECT_EQ(answers_, 1);
  RunIteration({}, milliseconds(16));
  EXPECT_EQ(reset.answers, 1);
  EXPECT_EQ(reset.failure, StoreFailure::kTimeout);
  while (!commands_.empty()) Reply();
  RunIteration({}, milliseconds(20));
  EXPECT_EQ(reset.answers, 1);
}

TEST_F(NodeFaults, ResetWhoseDeadlineHasPassed_IsNotSent) {
  RecordingReset reset("k", loop_.now());
  RunIteration([&] { node_->Reset(reset); });
  EXPECT_EQ(reset.failure, StoreFailure::kTimeout);
  EXPECT_THAT(commands_, IsEmpty());
}

TEST_F(NodeFaults, SilenceAfterACheckHasFailed_IsNoticed) {
  Begin({.timeout = seconds(1), .silence = milliseconds(50)});
  RunIteration([this] {
    Submit("a");
    SubmitFor("b", milliseconds(10));
  });
  RunIteration({}, milliseconds(11));
  EXPECT_EQ(answers_, 1);
  RunIteration({}, milliseconds(41));
  EXPECT_FALSE(Ready());
}

TEST_F(NodeFaults, LostConnection_EachCheckInFlightIsCountedAsAnUnknownOutcome) {
  RunIteration([this] {
    SubmitFor("left", milliseconds(5));
    SubmitFor("waits", milliseconds(40));
  });
  RunIteration({}, milliseconds(6));
  EXPECT_EQ(answers_, 1);
  Receive("HTTP/1.1 400 Bad Request\r\n");
  EXPECT_EQ(answers_, 2);
  EXPECT_THAT(metrics_.Render(), testing::HasSubstr("sluice_redis_unknown_outcomes_total 2"));
}

// A replica can deny checks, too, so a denial does not show that the node is a master.
TEST_F(NodeFaults, DeniedCheck_DoesNotShortenThePausesBetweenConnections) {
  for (int i = 0; i <= 10; ++i) {
    RunIteration([this] { Submit("full"); });
    Reply();
  }
  EXPECT_FALSE(checks_.back()->admitted);
  for (int i = 0; i < 8; ++i) {
    RunIteration([this] { Submit("a"); });
    Receive("-READONLY You can't write against a read only replica.\r\n");
    LogIn();
  }
  RunIteration([this] { Submit("full"); });
  Reply();
  EXPECT_FALSE(checks_.back()->admitted);
  Receive("+OK\r\n");
  const SteadyTime down = loop_.now();
  LogIn();
  EXPECT_GT(loop_.now() - down, milliseconds(150));
}

TEST_F(NodeFaults, ChecksRoutedBySlot_AreSentAtOnceInSeparateCalls_OtherChecksDoNotWait) {
  // More than four plain checks are usually sent in one call. These five are routed by slot.
  RunIteration([this] {
    for (int i = 0; i < 5; ++i) {
      auto pending = std::make_unique<redis::PendingCheck>(Make("{k}" + std::to_string(i)));
      pending->routing = redis::Routing::kBySlot;
      node_->Submit(std::move(pending));
    }
    Submit("with others");
  });
  EXPECT_THAT(Runs(), ElementsAre(1, 1, 1, 1, 1, 1));
  while (!commands_.empty()) Reply();
  EXPECT_EQ(answers_, 6);
}

// An owner may reuse a check. Then the timeout of the check can be restarted once more.
TEST_F(NodeFaults, LateLoopAgain_RestartsTheTimeoutOfAReusedCheck) {
  RecordingCheck& check = Make("a");
  for (int i = 0; i < 2; ++i) {
    RunIteration([&] {
      check.deadline = loop_.now() + milliseconds(10);
      node_->Submit(check);
    });
    RunIteration({}, milliseconds(16));
    EXPECT_EQ(check.answered, i) << "the loop was late, not Redis";
    Reply();
    EXPECT_EQ(check.answered, i + 1);
    EXPECT_FALSE(check.failure());
  }
}

// In an iteration, bytes are received before timers fire.
TEST_F(NodeFaults, ReplyInTheIterationOfTheDeadline_IsInTime) {
  RunIteration([this] { SubmitFor("a", milliseconds(10)); });
  const std::string reply = TakeReply();
  RunIteration([&] { loop_.wire()->Receive(reply); }, milliseconds(12));
  EXPECT_FALSE(checks_[0]->failure());
}

TEST_F(NodeFaults, ServerIsSilent_Reconnects) {
  Begin({.timeout = seconds(1), .silence = milliseconds(50)});
  RunIteration([this] { Submit("a"); });
  RunIteration([this] { Submit("gathered"); }, milliseconds(30));
  RunIteration({}, milliseconds(21));
  EXPECT_EQ(checks_[0]->failure(), StoreFailure::kTimeout);
  EXPECT_EQ(checks_[1]->failure(), StoreFailure::kUnreachable);
  EXPECT_FALSE(Ready());
  LogIn();
  ExpectServing();
}

TEST_F(NodeFaults, LoginIsNotAnswered_ReconnectsAfterTheTimeoutOfLogins) {
  Receive("+OK\r\n");
  while (loop_.wire() == nullptr) RunIteration({}, milliseconds(1));
  RunIteration({}, milliseconds(498));
  EXPECT_NE(loop_.wire(), nullptr);
  RunIteration({}, milliseconds(3));
  EXPECT_EQ(loop_.wire(), nullptr);
  LogIn();
  ExpectServing();
}

TEST_F(NodeFaults, LoginRefused_IsTriedAgain) {
  Receive("+OK\r\n");
  while (loop_.wire() == nullptr) RunIteration({}, milliseconds(1));
  Receive("-NOPERM SETNAME\r\n");
  EXPECT_FALSE(loop_.wire()->closed()) << "the connection needs no name";
  Receive("-NOPERM EXISTS\r\n");
  EXPECT_FALSE(loop_.wire()->closed()) << "the script may already be loaded";
  Receive("-NOPERM LOAD\r\n");
  EXPECT_EQ(loop_.wire(), nullptr);
  LogIn();
  ExpectServing();
}

TEST_F(NodeFaults, UnsolicitedReply_EndsOnlyTheConnection) {
  Receive("+OK\r\n");
  EXPECT_FALSE(Ready());
  LogIn();
  ExpectServing();
}

// If the connection stayed open, the next pack might get the reply to this pack.
TEST_F(NodeFaults, ReplyOfTheWrongShape_EndsTheConnection) {
  for (const char* reply : {"+OK\r\n", ":1\r\n", "$-1\r\n", "*0\r\n", "*1\r\n$8\r\n01234567\r\n"}) {
    RunIteration([this] { Submit("a"); });
    Receive(reply);
    EXPECT_EQ(checks_.back()->failure(), StoreFailure::kRejected) << reply;
    EXPECT_FALSE(Ready()) << reply;
    LogIn();
    ExpectServing();
  }
}

TEST_F(NodeFaults, ReplyForFewerChecks_EndsTheConnection) {
  RunIteration([this] { SubmitDifferent(16, "a"); });
  ASSERT_THAT(Runs(), ElementsAre(16));
  const std::string reply = TakeReply();
  Receive(reply);
  RunIteration([this] { SubmitDifferent(17, "b"); });
  Receive(reply);
  EXPECT_EQ(checks_.back()->failure(), StoreFailure::kRejected);
  EXPECT_FALSE(Ready());
  LogIn();
  ExpectServing();
}

TEST_F(NodeFaults, BytesThatAreNotRedis_EndTheConnection) {
  Receive("HTTP/1.1 400 Bad Request\r\n");
  EXPECT_FALSE(Ready());
  LogIn();
  ExpectServing();
}

// Checks wait only for the first connection of a node.
TEST_F(NodeFaults, NodeHasLostItsFirstConnection_ChecksFailAtOnce) {
  unconnected_ = redis::Node::WhenUnconnected::kWait;
  Begin({});
  Receive("HTTP/1.1 400 Bad Request\r\n");
  const RecordingCheck& check = Submit("a");
  EXPECT_EQ(check.failure(), StoreFailure::kUnreachable);
  LogIn();
}

TEST_F(NodeFaults, NodeIsStoppedBeforeItsFirstConnection_ChecksFailAtOnce) {
  unconnected_ = redis::Node::WhenUnconnected::kWait;
  Create({});
  loop_.RunIteration([this] { node_->Stop(); });
  EXPECT_EQ(Submit("a").failure(), StoreFailure::kUnreachable);
}

TEST_F(NodeFaults, ReplyTooLarge_EndsTheConnectionBeforeItIsStored) {
  const std::string megabyte(std::size_t{1} << 20, 'x');
  const std::string replies[] = {
      "*134217727\r\n",                 // its header states too many elements
      "*2\r\n*1\r\n*65536\r\n",         // too many elements in total
      "$536870911\r\n" + megabyte,      // a part of a large string
      "-" + megabyte,                   // a line without an end
      "*2\r\n$1048576\r\n" + megabyte,  //
  };
  for (const std::string& reply : replies) {
    RunIteration([this] { Submit("a"); });
    Receive(reply);
    EXPECT_EQ(checks_.back()->answered, 1) << reply.substr(0, 20);
    EXPECT_FALSE(Ready()) << reply.substr(0, 20);
    LogIn();
    ExpectServing();
  }
}

TEST_F(NodeFaults, ReplyInSmallPieces_IsRead) {
  RunIteration([this] { SubmitDifferent(64, "k"); });
  const std::string reply = TakeReply();
  for (const char byte : reply) Receive(std::string(1, byte));
  EXPECT_EQ(answers_, 64);
  EXPECT_FALSE(checks_.back()->failure());
}

TEST_F(NodeFaults, ReplyOfManyCounters_IsAccepted) {
  std::vector<std::string> keys;
  for (int i = 0; i < 4000; ++i) keys.push_back("k" + std::to_string(i));
  RecordingCheck& check = Make("k");
  for (const std::string& key : keys) {
    check.counters.push_back({.key = key, .limit = &limit_, .verdict = {}});
  }
  RunIteration([&] { node_->Submit(check); });
  const std::string reply = TakeReply();
  ASSERT_GT(reply.size(), 65'536u);
  Receive(reply.substr(0, reply.size() - 1));
  EXPECT_EQ(answers_, 0);
  Receive(reply.substr(reply.size() - 1));
  EXPECT_FALSE(check.failure());
}

// The maximum size of a reply applies to each reply, not to all bytes that arrive together.
TEST_F(NodeFaults, ManyRepliesAtOnce_AreRead) {
  for (int i = 0; i < 2; ++i) {
    RunIteration([this] { SubmitDifferent(64, "k"); });
  }
  ASSERT_EQ(commands_.size(), 2u);
  const std::string first = TakeReply();
  Receive(first + TakeReply());
  EXPECT_EQ(answers_, 128);
}

TEST_F(NodeFaults, ScriptMissing_PacksAreSentAgainInTheirOrder) {
  const auto submit = [this](int n) {
    for (int i = 0; i < n; ++i) Submit("k" + std::to_string(checks_.size()));
  };
  RunIteration([&] { submit(1); });
  RunIteration([&] { submit(64); });
  RunIteration([&] { submit(64); });
  ASSERT_THAT(Runs(), ElementsAre(1, 64));
  redis_.Ask({"SCRIPT", "FLUSH"});
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(64, 0, 1)) << "the script is sent, then the first pack again";
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(0, 1, 64)) << "no new check is sent before the second pack";
  EXPECT_EQ(answers_, 0);
  while (!commands_.empty()) Reply();
  ASSERT_EQ(answers_, 129);
  for (int i = 0; i < 129; ++i) {
    EXPECT_EQ(checks_[i]->place, i);
    EXPECT_FALSE(checks_[i]->failure());
  }
}

// The pack owns the data that it sends, so it does not need the check that failed.
TEST_F(NodeFaults, ScriptMissingAfterOneCheckFailed_OthersAreDecided) {
  RunIteration([this] {
    SubmitFor("a key of a check that fails, too long for the string's own buffer",
              milliseconds(10));
    SubmitFor("k", milliseconds(40));
  });
  redis_.Ask({"SCRIPT", "FLUSH"});
  RunIteration({}, milliseconds(11));
  EXPECT_EQ(checks_[0]->failure(), StoreFailure::kTimeout);
  checks_[0].reset();
  while (!commands_.empty()) Reply();
  EXPECT_FALSE(checks_[1]->failure());
  EXPECT_EQ(Remaining(*checks_[1]), 9);
}

TEST_F(NodeFaults, ScriptMissingAfterAllChecksFailed_NothingIsSentAgain) {
  RunIteration([this] { SubmitFor("k", milliseconds(10)); });
  redis_.Ask({"SCRIPT", "FLUSH"});
  RunIteration({}, milliseconds(11));
  Reply();
  EXPECT_THAT(commands_, IsEmpty());
}

// Before version 7, Redis wraps the error of a command in an error of the script.
TEST_F(NodeFaults, ServerBecameAReplica_ReconnectsAfterGrowingPauses) {
  const std::string wordings[] = {
      "-READONLY You can't write against a read only replica.\r\n",
      "-ERR Error running script (call to f_4d831abeb03d4bc5cc5dcd6e19e1860bd3292a19): "
      "@user_script:1317: @user_script: 1317: -READONLY You can't write against a read only "
      "replica.\r\n",
  };
  for (const std::string& wording : wordings) {
    SteadyTime::duration pauses{};
    int logins = 0;
    for (; logins < 12; ++logins) {
      RunIteration([this] { Submit("a"); });
      Receive(wording);
      EXPECT_EQ(checks_.back()->failure(), StoreFailure::kRejected);
      ASSERT_FALSE(Ready());
      const SteadyTime down = loop_.now();
      LogIn();
      pauses += loop_.now() - down;
    }
    EXPECT_GT(pauses, 6 * milliseconds(200)) << "a login alone does not shorten the pauses";
    ExpectServing();
    Receive("+OK\r\n");
    const SteadyTime down = loop_.now();
    LogIn();
    EXPECT_LE(loop_.now() - down, milliseconds(40)) << "a charge shortens them";
    ExpectServing();
  }
}

TEST_F(NodeFaults, ErrorReply_FailsTheCheck_LoadingAndNoAuthEndTheConnection) {
  for (const char* word : {"BUSY", "OOM", "MISCONF", "WRONGTYPE", "CLUSTERDOWN", "ERR", "NOPERM"}) {
    RunIteration([this] { Submit("a"); });
    Receive("-" + std::string(word) + " said Redis\r\n");
    EXPECT_EQ(checks_.back()->failure(), StoreFailure::kRejected) << word;
    EXPECT_TRUE(Ready()) << word;
  }
  for (const char* word : {"LOADING", "NOAUTH"}) {
    RunIteration([this] { Submit("a"); });
    Receive("-" + std::string(word) + " said Redis\r\n");
    EXPECT_EQ(checks_.back()->failure(), StoreFailure::kRejected) << word;
    EXPECT_FALSE(Ready()) << word;
    LogIn();
  }
}

// Another io thread may be connected although this thread's connection cannot be made again.
TEST_F(NodeFaults, AttemptFails_RedisIsLostOnlyIfNoThreadIsConnected) {
  Receive("nonsense\r\n");
  EXPECT_THAT(lost_, ElementsAre(true));
  const auto fail = [this] {
    lost_.clear();
    for (int i = 0; i < 100 && lost_.empty(); ++i) {
      RunIteration({}, milliseconds(10));
      if (!commands_.empty()) Receive("nonsense\r\n");
    }
  };
  fail();
  EXPECT_THAT(lost_, ElementsAre(true));
  shared_.status.SetReady(0, true);  // stands for the other thread's connection
  fail();
  EXPECT_THAT(lost_, ElementsAre(false));
}

}  // namespace
}  // namespace sluice::test
