// Tests when a node's breaker opens, how checks fail while the breaker is open, and how the breaker
// closes again. Also tests the limit on the number of waiting checks.
#include <gmock/gmock.h>

#include "tests/store/node_test.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class NodeBreaker : public NodeTest {
 protected:
  NodeBreaker() { Begin({.timeout = milliseconds(10), .silence = seconds(60)}); }

  bool IsOpen() const { return !shared_.breaker.closed(); }

  // Opens the breaker: sends a call that Redis does not answer in time.
  void Trip() {
    RunIteration([this] { Submit("tripped"); });
    RunIteration({}, milliseconds(12));
    ASSERT_TRUE(IsOpen());
  }

  // Waits until a probe is in flight. Returns how long that took.
  Duration AwaitProbe() {
    const SteadyTime begin = loop_.now();
    const std::size_t before = commands_.size();
    while (commands_.size() == before && loop_.now() - begin < seconds(5)) {
      RunIteration({}, milliseconds(1));
    }
    return std::chrono::duration_cast<Duration>(loop_.now() - begin);
  }
  void ReplyToAll() {
    while (!commands_.empty()) Reply();
  }
};

TEST_F(NodeBreaker, CallIsOverdue_QueuedChecksFailAndNoneIsSent) {
  RunIteration([this] { Submit("sent"); });
  RunIteration([this] { SubmitDifferent(3, "gathered"); });
  RunIteration({}, milliseconds(9));
  EXPECT_FALSE(IsOpen());
  RunIteration({}, milliseconds(3));
  EXPECT_TRUE(IsOpen());
  EXPECT_EQ(checks_[0]->answered, 0) << "the sent check has time left, and may still be answered";
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(checks_[i]->failure(), StoreFailure::kUnsent);
  const SteadyTime wake = loop_.timers().NextWake();
  RunIteration([this] { SubmitDifferent(3, "later"); });
  for (int i = 4; i <= 6; ++i) EXPECT_EQ(checks_[i]->failure(), StoreFailure::kUnreachable);
  EXPECT_EQ(loop_.timers().NextWake(), wake) << "a check that fails at once sets no timer";
  EXPECT_THAT(Runs(), ElementsAre(1));
}

// The deadlines of the callers pass before the timeout of the script call.
TEST_F(NodeBreaker, AllCallersHaveLeft_TheScriptCallStillOpensTheBreaker) {
  RunIteration([this] {
    RecordingCheck& check = Make("k");
    check.deadline = check.last_deadline = loop_.now() + milliseconds(3);
    node_->Submit(check);
  });
  RunIteration({}, milliseconds(5));
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(IsOpen()) << "a caller's deadline of 3 ms does not show that Redis is slow";
  RunIteration({}, milliseconds(6));
  EXPECT_TRUE(IsOpen());
}

TEST_F(NodeBreaker, LoopItselfIsLate_TimeoutOfTheCallIsRestartedOnce) {
  RunIteration([this] { Submit("k"); });
  RunIteration({}, milliseconds(40));
  EXPECT_FALSE(IsOpen()) << "this process was late";
  RunIteration({}, milliseconds(11));
  EXPECT_TRUE(IsOpen());
}

TEST_F(NodeBreaker, ReplyInTheIterationOfTheTimer_IsInTime) {
  RunIteration([this] { Submit("k"); });
  const std::string reply = TakeReply();
  RunIteration([&] { loop_.wire()->Receive(reply); }, milliseconds(12));
  EXPECT_FALSE(IsOpen());
}

TEST_F(NodeBreaker, ProbeIsAnswered_ChecksAreDecidedAgainWithinASecond) {
  Trip();
  reachable_.clear();
  ReplyToAll();
  EXPECT_TRUE(IsOpen()) << "a late reply does not close the breaker";
  EXPECT_LE(AwaitProbe(), milliseconds(200));
  EXPECT_THAT(Runs(), ElementsAre(1));
  EXPECT_THAT(reachable_, IsEmpty());
  ReplyToAll();
  EXPECT_FALSE(IsOpen());
  EXPECT_THAT(reachable_, ElementsAre(true));
  RunIteration([this] { Submit("k"); });
  ReplyToAll();
  EXPECT_FALSE(checks_.back()->failure());
}

TEST_F(NodeBreaker, LoopIsLateWhileAProbeIsInFlight_TheProbeGetsNoMoreTime) {
  Trip();
  ReplyToAll();
  AwaitProbe();
  RunIteration({}, milliseconds(40));
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_redis_breaker_state 2"))
      << "the probe has failed";
}

// The round trip to Redis takes 20 ms, longer than the timeout of 10 ms.
TEST_F(NodeBreaker, RoundTripExceedsTheTimeout_OnlyProbesAreCharged) {
  Trip();
  ReplyToAll();
  std::deque<int> sent;  // the millisecond in which each of commands_ was sent
  int probes = 0;
  for (int ms = 0; ms < 3'000; ++ms) {
    RunIteration({}, milliseconds(1));
    if (commands_.size() > sent.size()) {
      sent.push_back(ms);
      ++probes;
      EXPECT_EQ(commands_.back()[3], "sluice:{probe}:fixed_window:1s");
    }
    if (!sent.empty() && ms - sent.front() >= 20) {
      sent.pop_front();
      Reply();
    }
    if (ms % 100 == 0) {
      RunIteration([this] { Submit("k"); });
      EXPECT_EQ(checks_.back()->failure(), StoreFailure::kUnreachable);
    }
    ASSERT_TRUE(IsOpen());
  }
  EXPECT_GT(probes, 10);
  EXPECT_LT(probes, 50) << "pauses must grow";
}

TEST_F(NodeBreaker, ErrorsInMostCalls_OpenTheBreaker) {
  const auto answer = [this](bool well) {
    RunIteration([this] { Submit("k"); });
    well ? Reply() : Receive("-OOM command not allowed\r\n");
    if (!well) commands_.clear();
  };
  for (int i = 0; i < 19; ++i) answer(false);
  EXPECT_FALSE(IsOpen()) << "too few calls to judge";
  RunIteration({}, seconds(2));
  for (int i = 0; i < 40; ++i) answer(i % 2 == 0);
  EXPECT_FALSE(IsOpen()) << "only half of the calls failed";
  answer(false);
  EXPECT_TRUE(IsOpen());
  AwaitProbe();
  Receive("-OOM command not allowed\r\n");
  EXPECT_TRUE(IsOpen()) << "the probe has failed";
  commands_.clear();
  AwaitProbe();
  ReplyToAll();
  EXPECT_FALSE(IsOpen());
}

TEST_F(NodeBreaker, ConnectionComesBack_IsProbedAtOnce) {
  Trip();
  reachable_.clear();
  Receive("HTTP/1.1 400 Bad Request\r\n");
  LogIn();
  EXPECT_LE(AwaitProbe(), milliseconds(3));
  EXPECT_THAT(reachable_, ElementsAre(false)) << "the breaker is still open";
  ReplyToAll();
  EXPECT_FALSE(IsOpen());
  EXPECT_THAT(reachable_, ElementsAre(false, true));
}

// Pauses grow during one outage, not from one outage to the next.
TEST_F(NodeBreaker, SecondOutage_ProbePauseIsShortAgain) {
  redis::Breaker& breaker = shared_.breaker;
  const Duration first = breaker.ProbePause(0);
  breaker.Open("test");
  for (const bool answered : {false, false, false, true}) {
    ASSERT_TRUE(breaker.TakeProbe());
    breaker.OnProbe(answered);
  }
  EXPECT_GT(breaker.ProbePause(0), first);
  breaker.Open("test");
  EXPECT_EQ(breaker.ProbePause(0), first);
}

TEST_F(NodeBreaker, UndoWhileTheBreakerIsOpen_IsDoneAfterward) {
  RecordingCheck& charged = Make("k");
  RunIteration([&] { node_->Submit(charged); });
  ReplyToAll();
  Trip();
  ReplyToAll();
  RunIteration([&] { settler_->Undo(charged); });
  EXPECT_THAT(commands_, IsEmpty());
  AwaitProbe();
  Reply();
  EXPECT_THAT(Runs(), ElementsAre(1)) << "the undo";
  ReplyToAll();
  RunIteration([this] { Submit("k"); });
  ReplyToAll();
  EXPECT_EQ(Remaining(*checks_.back()), 9);
}

TEST_F(NodeBreaker, UnusedNode_IsNotOnTheMetricsPage_UntilItIsUsedAgain) {
  Begin({}, /*inspects=*/true);
  End();
  EXPECT_THAT(metrics_.Render(), Not(HasSubstr("sluice_redis_breaker_state 0")));
  Begin({}, /*inspects=*/true);
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_redis_breaker_state 0"));
}

TEST_F(NodeBreaker, Transitions_AreOnTheMetricsPage) {
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_redis_breaker_state 0"));
  Trip();
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_redis_breaker_state 2"));
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_redis_breaker_openings_total 1"));
  ReplyToAll();
  AwaitProbe();
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_redis_breaker_state 1"));
  ReplyToAll();
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_redis_breaker_state 0"));
}

// If more checks waited than Redis has answered recently, most of the excess would not be answered
// in time.
TEST_F(NodeBreaker, ChecksThatWait_AreBoundedByTheNumberOfRecentAnswers) {
  RunIteration([this] { SubmitDifferent(1200, "k"); });
  int overloaded = 0;
  for (const auto& check : checks_) overloaded += check->failure() == StoreFailure::kOverloaded;
  EXPECT_EQ(overloaded, 200);
  ReplyToAll();
  checks_.clear();
  for (int i = 0; i < 3; ++i) {
    RunIteration([this] {
      for (int j = 0; j < 1000; ++j) Submit("hot");
    });
    ReplyToAll();
  }
  checks_.clear();
  RunIteration([this] { SubmitDifferent(1200, "k"); });
  for (const auto& check : checks_) EXPECT_NE(check->failure(), StoreFailure::kOverloaded);
  ReplyToAll();
  const auto overloaded_now = [this] {
    checks_.clear();
    RunIteration([this] { SubmitDifferent(1200, "k"); });
    const auto count = std::count_if(checks_.begin(), checks_.end(), [](const auto& check) {
      return check->failure() == StoreFailure::kOverloaded;
    });
    ReplyToAll();
    return count;
  };
  const auto answer_one_after = [this](Duration pause) {
    RunIteration({}, pause);
    RunIteration([this] { Submit("one"); });
    ReplyToAll();
  };
  answer_one_after(milliseconds(5));
  EXPECT_EQ(overloaded_now(), 0) << "1200 checks were answered in the previous half of the timeout";
  answer_one_after(milliseconds(20));
  EXPECT_EQ(overloaded_now(), 200) << "those answers were long ago";
}

}  // namespace
}  // namespace sluice::test
