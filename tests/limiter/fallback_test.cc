// The answers to checks while the store fails. Each rule has its own policy, on_store_failure.
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "core/algorithm/counter.h"
#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

class FallbackTest : public LimiterTest {
 protected:
  void SetUp() override { store_.failing = StoreFailure::kUnreachable; }

  static Rule WithPolicy(std::string name, OnStoreFailure policy, std::int64_t limit = 2) {
    Rule rule = RuleOf(std::move(name), {FixedWindow{.limit = limit, .window = seconds(60)}});
    rule.on_store_failure = policy;
    return rule;
  }

  // A rule with an override that gives some requests a limit of 5 on the same counter.
  static Rule WithSmallerLimit(const Limit& limit) {
    Rule rule = RuleOf("r", {limit});
    Limit smaller = limit;
    std::visit(
        [](auto& it) {
          if constexpr (requires { it.limit = 5; }) it.limit = 5;
        },
        smaller);
    Override exports;
    exports.match = {{"path", {.kind = Pattern::Kind::kExact, .text = "/export", .of = {}}}};
    exports.limits = {Limits::Effect::kCount, {smaller}};
    rule.overrides = {exports};
    return rule;
  }
};

TEST_F(FallbackTest, Allow_AdmitsWithUnknownState) {
  SetRules({WithPolicy("r", OnStoreFailure::kAllow)});
  for (int i = 0; i < 5; ++i) {
    const CheckAnswer answer = Check();
    EXPECT_EQ(answer.decision, Decision::kAllowed);
    EXPECT_EQ(answer.source, Source::kFallback);
    EXPECT_EQ(answer.limits[0].source, Source::kFallback);
    EXPECT_FALSE(answer.limits[0].state_known);
  }
}

TEST_F(FallbackTest, Deny_DeniesWithRetryAfter) {
  SetRules({WithPolicy("r", OnStoreFailure::kDeny)});
  const CheckAnswer answer = Check();
  EXPECT_EQ(answer.decision, Decision::kDenied);
  EXPECT_EQ(answer.source, Source::kFallback);
  EXPECT_EQ(answer.retry_after, seconds(1));
}

TEST_F(FallbackTest, Error_IsUnavailable) {
  SetRules({WithPolicy("r", OnStoreFailure::kError)});
  const auto answer = TryCheck();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

TEST_F(FallbackTest, Local_DecidesHereWithThisServersShare) {
  SetRules({WithPolicy("r", OnStoreFailure::kLocal, 9)});
  fallback_.SetShare(Share::OfServer(3, 0));
  for (int i = 0; i < 5; ++i) {
    const CheckAnswer answer = Check();
    EXPECT_EQ(answer.decision, i < 3 ? Decision::kAllowed : Decision::kDenied);
    EXPECT_EQ(answer.source, Source::kFallback);
    EXPECT_TRUE(answer.limits[0].state_known);
    EXPECT_EQ(answer.limits[0].verdict.limit, 3);
  }
}

// Some requests have a smaller limit on the same counter. Their verdicts must not hide how much has
// been taken.
TEST_F(FallbackTest, Local_LastCheckBeforeTheOutageHasASmallerLimit_AdmitsOnlyWhatIsLeft) {
  for (const Limit& limit :
       {Limit(PerMinute(100)), Limit(SlidingWindow{.limit = 100, .window = seconds(60)}),
        Limit(SlidingLog{.limit = 100, .window = seconds(60)})}) {
    SetRules({WithSmallerLimit(limit)});
    clock_.Advance(std::chrono::hours(1));
    store_.failing.reset();
    Check({}, 90);
    EXPECT_EQ(Check({{"path", "/export"}}).decision, Decision::kDenied);
    store_.failing = StoreFailure::kUnreachable;
    int admitted = 0;
    while (Check().decision == Decision::kAllowed) ++admitted;
    EXPECT_EQ(admitted, 10);
    store_.failing.reset();
    Check();
    clock_.Advance(seconds(2));
    Check();  // the store is in use again
  }
}

// The check with the smaller limit comes first in the outage, so it starts the local counter.
TEST_F(FallbackTest, Local_FirstCheckOfTheOutageHasASmallerLimit_AdmitsItsShareOfWhatIsLeft) {
  for (const Limit& limit :
       {Limit(PerMinute(100)), Limit(SlidingWindow{.limit = 100, .window = seconds(60)}),
        Limit(SlidingLog{.limit = 100, .window = seconds(60)})}) {
    for (const std::int64_t servers : {1, 3}) {
      SetRules({WithSmallerLimit(limit)});
      clock_.Advance(std::chrono::hours(1));
      store_.failing.reset();
      Check({}, 90);
      store_.failing = StoreFailure::kUnreachable;
      fallback_.SetShare(Share::OfServer(servers, 0));
      EXPECT_EQ(Check({{"path", "/export"}}).decision, Decision::kDenied);
      int admitted = 0;
      while (Check().decision == Decision::kAllowed) ++admitted;
      EXPECT_EQ(admitted, servers == 1 ? 10 : 4);  // of 10 units, the first of 3 servers gets 4
      store_.failing.reset();
      Check();
      clock_.Advance(seconds(2));
      Check();  // the store is in use again
    }
  }
}

TEST_F(FallbackTest, SeveralRules_DenyHasPriorityOverError_ErrorOverAdmission) {
  using enum OnStoreFailure;
  struct Row {
    OnStoreFailure first, second;
    std::optional<Decision> decision;  // none: UNAVAILABLE
  };
  const Row rows[] = {
      {kAllow, kAllow, Decision::kAllowed}, {kAllow, kDeny, Decision::kDenied},
      {kLocal, kDeny, Decision::kDenied},   {kError, kDeny, Decision::kDenied},
      {kLocal, kAllow, Decision::kAllowed}, {kError, kAllow, std::nullopt},
      {kError, kLocal, std::nullopt},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    // The limits are large enough for the units that earlier rows have taken.
    SetRules({WithPolicy("a", row.first, 20), WithPolicy("b", row.second, 20)});
    const auto answer = TryCheck();
    const auto decision = answer ? std::optional(answer->decision) : std::nullopt;
    EXPECT_EQ(decision, row.decision);
  }
}

TEST_F(FallbackTest, AnotherRuleDenies_LocalRuleIsNotCharged) {
  SetRules({WithPolicy("local", OnStoreFailure::kLocal), WithPolicy("no", OnStoreFailure::kDeny)});
  for (int i = 0; i < 5; ++i) Check();
  SetRules({WithPolicy("local", OnStoreFailure::kLocal)});
  EXPECT_EQ(Check({}, 0).limits[0].verdict.remaining, 2);
}

TEST_F(FallbackTest, ExhaustedLocalRule_DeniesBeforeAnotherRulesError) {
  SetRules({WithPolicy("local", OnStoreFailure::kLocal, 1)});
  Check();
  SetRules(
      {WithPolicy("local", OnStoreFailure::kLocal, 1), WithPolicy("e", OnStoreFailure::kError)});
  const auto answer = TryCheck();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->decision, Decision::kDenied);
}

TEST_F(FallbackTest, ShadowRule_IsIgnoredDuringOutage) {
  Rule shadow = WithPolicy("shadow", OnStoreFailure::kError);
  shadow.shadow = true;
  SetRules({WithPolicy("r", OnStoreFailure::kAllow), shadow});
  EXPECT_EQ(Check().decision, Decision::kAllowed);
}

TEST_F(FallbackTest, ChargeAndRefund_ChangeLocalCounters_AreCountedAsLostExceptLocalCharges) {
  using enum OnStoreFailure;
  struct Row {
    OnStoreFailure policy;
    std::optional<Decision> decision;  // none: UNAVAILABLE
    bool charges_are_lost;
  };
  const Row rows[] = {
      {kLocal, Decision::kAllowed, false},
      {kAllow, Decision::kAllowed, true},
      {kDeny, Decision::kDenied, true},
      {kError, std::nullopt, true},
  };
  double lost = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    SetRules({WithPolicy("r", row.policy, 10)});
    for (const Mode mode : {Mode::kCharge, Mode::kRefund}) {
      const auto answer = TryAsk(RequestOf(mode, 3));
      EXPECT_EQ(answer ? std::optional(answer->decision) : std::nullopt, row.decision);
      lost += row.charges_are_lost || mode == Mode::kRefund ? 1 : 0;
      EXPECT_EQ(Value("sluice_lost_writes_total"), lost);
      if (row.policy != kLocal) continue;
      EXPECT_EQ(answer->limits[0].verdict.remaining, mode == Mode::kCharge ? 7 : 10);
    }
    EXPECT_EQ(TryAsk(RequestOf(Mode::kCharge, 0)).has_value(), row.decision.has_value());
    EXPECT_EQ(Value("sluice_lost_writes_total"), lost) << "there are no units to lose";
  }
}

TEST_F(FallbackTest, Charge_AnotherRuleDenies_LocalRuleCountsTheCharge_OtherRuleLosesIt) {
  SetRules(
      {WithPolicy("local", OnStoreFailure::kLocal, 10), WithPolicy("no", OnStoreFailure::kDeny)});
  EXPECT_EQ(Ask(RequestOf(Mode::kCharge, 3)).decision, Decision::kDenied);
  EXPECT_EQ(Value("sluice_lost_writes_total"), 1);
  SetRules({WithPolicy("local", OnStoreFailure::kLocal, 10)});
  EXPECT_EQ(Check({}, 0).limits[0].verdict.remaining, 7);
}

// The store may or may not have run the charge. The local counter counts it in both cases.
TEST_F(FallbackTest, ChargeAndRefund_TimedOut_AreCountedAsLost) {
  store_.failing = StoreFailure::kTimeout;
  SetRules({WithPolicy("r", OnStoreFailure::kLocal, 10)});
  EXPECT_EQ(Ask(RequestOf(Mode::kCharge, 3)).limits[0].verdict.remaining, 7);
  EXPECT_EQ(Value("sluice_lost_writes_total"), 1);
  Ask(RequestOf(Mode::kRefund, 3));
  EXPECT_EQ(Value("sluice_lost_writes_total"), 2);
  store_.failing = StoreFailure::kCallerTimeout;
  EXPECT_EQ(TryAsk(RequestOf(Mode::kCharge, 3)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(Value("sluice_lost_writes_total"), 3);
}

// The store decides one counter. The other counter fails, so the policy of its rule decides. The
// check is allowed only if both admit.
TEST_F(FallbackTest, OneCounterFails_TheStoreDecidesTheOther_BothMustAdmit) {
  using enum OnStoreFailure;
  struct Row {
    OnStoreFailure policy;
    std::int64_t local_limit;
    std::optional<Decision> decision;  // none: UNAVAILABLE
    std::int64_t left_in_store;        // of 10
  };
  const Row rows[] = {
      {kLocal, 5, Decision::kAllowed, 9}, {kLocal, 0, Decision::kDenied, 10},
      {kAllow, 5, Decision::kAllowed, 9}, {kDeny, 5, Decision::kDenied, 10},
      {kError, 5, std::nullopt, 10},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    store_.failing = StoreFailure::kUnreachable;
    store_.failing_key = "failing";
    const std::string name = "row" + std::to_string(&row - rows);
    SetRules(
        {WithPolicy(name, kLocal, 10), WithPolicy("failing" + name, row.policy, row.local_limit)});
    const auto answer = TryCheck();
    EXPECT_EQ(answer ? std::optional(answer->decision) : std::nullopt, row.decision);
    if (answer) {
      EXPECT_EQ(answer->source, Source::kFallback);
      EXPECT_EQ(answer->limits[0].source, Source::kStore);
      EXPECT_EQ(answer->limits[1].source, Source::kFallback);
    }
    store_.failing.reset();
    SetRules({WithPolicy(name, kLocal, 10)});
    EXPECT_EQ(Ask(RequestOf(Mode::kPeek)).limits[0].verdict.remaining, row.left_in_store);
  }
}

// A part of the store is, for example, a node of a cluster.
TEST_F(FallbackTest, PartOfTheStoreFails_TheOtherPartsDecide) {
  store_.failing_key = "failing";
  Rule failing = WithPolicy("failing", OnStoreFailure::kLocal, 100);
  failing.match = {{"path", {.kind = Pattern::Kind::kExact, .text = "/failing", .of = {}}}};
  Rule healthy = WithPolicy("healthy", OnStoreFailure::kLocal, 100);
  healthy.match = {{"path", {.kind = Pattern::Kind::kExact, .text = "/healthy", .of = {}}}};
  SetRules({failing, healthy});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Check({{"path", "/failing"}}).source, Source::kFallback);
    clock_.Advance(std::chrono::milliseconds(100));
    EXPECT_EQ(Check({{"path", "/healthy"}}).source, Source::kStore);
    clock_.Advance(std::chrono::milliseconds(100));
  }
  store_.failing.reset();
  EXPECT_EQ(Check({{"path", "/failing"}}).source, Source::kStore);
  EXPECT_EQ(Check({{"path", "/failing"}}).source, Source::kFallback)
      << "other servers may not have charged their units yet";
  EXPECT_EQ(Check({{"path", "/healthy"}}).source, Source::kStore);
}

TEST_F(FallbackTest, StoreDeniesOneCounter_TheLocalOneIsNotCharged) {
  store_.failing_key = "failing";
  SetRules({WithPolicy("full", OnStoreFailure::kLocal, 0),
            WithPolicy("failing", OnStoreFailure::kLocal, 5)});
  const CheckAnswer answer = Check();
  EXPECT_EQ(answer.decision, Decision::kDenied);
  EXPECT_EQ(answer.limits[1].verdict.remaining, 5);
  EXPECT_EQ(Check().limits[1].verdict.remaining, 5);
}

TEST_F(FallbackTest, CheckIsUndone_OutageStartsFromTheStateAfterTheUndo) {
  store_.listener = &fallback_;
  store_.failing_key = "failing";
  SetRules(
      {WithPolicy("r", OnStoreFailure::kLocal, 1), WithPolicy("failing", OnStoreFailure::kDeny)});
  EXPECT_EQ(Check().decision, Decision::kDenied);
  store_.failing_key.clear();
  SetRules({WithPolicy("r", OnStoreFailure::kLocal, 1)});
  const CheckAnswer answer = Check();
  EXPECT_EQ(answer.decision, Decision::kAllowed);
  EXPECT_EQ(answer.source, Source::kFallback);
}

TEST_F(FallbackTest, CheckIsNotAdmitted_LateAdmissionByTheStoreIsUndone) {
  using enum OnStoreFailure;
  struct Row {
    OnStoreFailure policy;
    bool undo;
  };
  store_.failing = StoreFailure::kTimeout;
  store_.sent = true;
  for (const Row& row :
       {Row{kLocal, false}, Row{kAllow, false}, Row{kDeny, true}, Row{kError, true}}) {
    SCOPED_TRACE(static_cast<int>(row.policy));
    SetRules({WithPolicy("r", row.policy)});
    static_cast<void>(TryCheck());
    EXPECT_EQ(store_.late->undo, row.undo);
  }
  SetRules({WithPolicy("r", kLocal, 0)});
  Check();
  EXPECT_TRUE(store_.late->undo) << "this server's own counter denied the check";
  SetRules({WithPolicy("r", kAllow)});
  Ask(RequestOf(Mode::kCharge));
  EXPECT_FALSE(store_.late->undo) << "a charge counts regardless of the decision";
}

TEST_F(FallbackTest, NoRoomInLocalMemory_NothingIsAdmitted_ChargesAreLost) {
  SetRules({WithPolicy("r", OnStoreFailure::kLocal)});
  local_.failing = StoreFailure::kOverloaded;
  const CheckAnswer answer = Check();
  EXPECT_EQ(answer.decision, Decision::kDenied);
  EXPECT_FALSE(answer.limits[0].state_known);
  EXPECT_EQ(Value("sluice_lost_writes_total"), 0);
  Ask(RequestOf(Mode::kCharge));
  EXPECT_EQ(Value("sluice_lost_writes_total"), 1);
}

TEST_F(FallbackTest, Peek_FollowsThePolicy_ChargesNothing) {
  SetRules({WithPolicy("r", OnStoreFailure::kLocal)});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Ask(RequestOf(Mode::kPeek)).decision, Decision::kAllowed);
  }
  EXPECT_EQ(Ask(RequestOf(Mode::kPeek, 3)).decision, Decision::kDenied);
  SetRules({WithPolicy("r", OnStoreFailure::kDeny)});
  EXPECT_EQ(Ask(RequestOf(Mode::kPeek)).decision, Decision::kDenied);
  SetRules({WithPolicy("r", OnStoreFailure::kError)});
  EXPECT_FALSE(TryAsk(RequestOf(Mode::kPeek)));
  EXPECT_EQ(Value("sluice_lost_writes_total"), 0);
}

TEST_F(FallbackTest, StoreIsBack_DecidesAgain) {
  SetRules({WithPolicy("r", OnStoreFailure::kLocal)});
  EXPECT_EQ(Check().source, Source::kFallback);
  store_.failing.reset();
  EXPECT_EQ(Check().source, Source::kStore);
}

// Tests what this server learns about one counter from the store's answers.
class FallbackMemoryTest : public LimiterTest {
 protected:
  struct Answered final : StoreCheck {
    void OnDecided() override {}
  };

  // The store's answer to a check of counter "k".
  Answered& Answer(const CounterSnapshot& snapshot, Mode mode = Mode::kConsume) {
    Answered& check = *answers_.emplace_back(std::make_unique<Answered>());
    check.counters.push_back({.key = "k", .limit = &limit_, .verdict = {}});
    check.counters[0].before = snapshot;
    check.counters[0].verdict.reset_after = seconds(30);
    check.counters[0].decided_at = clock_.Now();
    check.decided_at = clock_.Now() + seconds(1);  // the time of another counter
    check.demand.mode = mode;
    return check;
  }
  bool IsCleared() const { return fallback_.clearings.HasSince("k", begin_); }

  const SteadyTime begin_ = SteadyNow() - seconds(1);
  Limit limit_ = PerMinute(10);
  const FixedWindow::Snapshot seen_{
      .start = clock_.Now() - seconds(50), .count = 4, .last = clock_.Now()};
  std::vector<std::unique_ptr<Answered>> answers_;
};

TEST_F(FallbackMemoryTest, Answer_IsLearnedWithTheTimesOfItsCounter) {
  const Time now = clock_.Now();
  const SeenState expected{.snapshot = seen_, .reset_at = now + seconds(30), .at = now};
  fallback_.OnLateAnswer(Answer(seen_));
  EXPECT_EQ(fallback_.states.Find("k"), expected);
  EXPECT_FALSE(IsCleared());
}

TEST_F(FallbackMemoryTest, AnswerToACheckOfTwoCounters_EachIsLearnedWithItsOwnUnits) {
  Answered& check = Answer(seen_);
  check.counters.push_back(check.counters[0]);
  check.counters[1].key = "l";
  check.counters[0].units = 2;
  check.counters[1].units = 5;
  for (CounterCheck& counter : check.counters) counter.charged = true;
  fallback_.OnLateAnswer(check);
  const auto count = [&](std::string_view key) {
    return std::get<FixedWindow::Snapshot>(fallback_.states.Find(key)->snapshot).count;
  };
  EXPECT_EQ(count("k"), 6);
  EXPECT_EQ(count("l"), 9);
}

TEST_F(FallbackMemoryTest, LateAnswer_IsLearned_LateRefundVoidsDenials) {
  fallback_.OnLateAnswer(Answer(seen_));
  EXPECT_TRUE(fallback_.states.Find("k"));
  EXPECT_FALSE(IsCleared());
  fallback_.OnLateAnswer(Answer(seen_, Mode::kRefund));
  EXPECT_TRUE(IsCleared());
}

// After an outage, a server sends settlements for leases that it granted itself.
TEST_F(FallbackMemoryTest, SettlementThatTheStoreAnswers_VoidsDenials) {
  fallback_.NoteDecided(Answer(seen_, Mode::kSettle), SteadyNow());
  EXPECT_TRUE(IsCleared());
}

TEST_F(FallbackMemoryTest, Forget_RemovesStateChargesAndLeases_VoidsDenials) {
  fallback_.OnLateAnswer(Answer(seen_));
  fallback_.RecordCharge("k", limit_, 1);
  fallback_.leases.Granted(
      {.id = {1}, .held = {{.key = "k", .count = 1}}, .expires = SteadyTime::max()});
  fallback_.Forget("k");
  EXPECT_FALSE(fallback_.states.Find("k"));
  EXPECT_EQ(fallback_.charges.size(), 0u);
  EXPECT_FALSE(fallback_.leases.changes() > 0);
  EXPECT_TRUE(IsCleared());
}

TEST_F(FallbackMemoryTest, Charge_CountsUntilTheSeenWindowEnds) {
  fallback_.OnLateAnswer(Answer(seen_));
  fallback_.RecordCharge("k", limit_, 3);
  EXPECT_EQ(fallback_.charges.Find("k", clock_.Now() + seconds(10) - Duration(1)), 3);
  EXPECT_EQ(fallback_.charges.Find("k", clock_.Now() + seconds(10)), 0);
}

TEST_F(FallbackMemoryTest, Charge_ShrinksByThisServersShareOfTheRefill) {
  limit_ = TokenBucket{.rate = 2, .period = seconds(1), .burst = 100};
  fallback_.SetShare(Share::OfServer(2, 0));
  fallback_.RecordCharge("k", limit_, 10);
  EXPECT_EQ(fallback_.charges.Find("k", clock_.Now() + seconds(4)), 6);
}

// This server last saw the bucket empty. Since then, the bucket has filled up.
TEST_F(FallbackMemoryTest, PendingUnits_AreMissingFromTheCurrentLevel) {
  limit_ = TokenBucket{.rate = 1, .period = seconds(1), .burst = 100};
  fallback_.OnLateAnswer(Answer(TokenBucket::Snapshot{.level = 0, .last = clock_.Now()}));
  clock_.Advance(std::chrono::hours(1));
  fallback_.RecordCharge("k", limit_, 10);
  Fallback::LocalCounter local = fallback_.Localize("k", limit_);
  Advance(local.limit, local.seed->state, clock_.Now());
  EXPECT_EQ(Used(local.limit, local.seed->state), 10);
}

}  // namespace
}  // namespace sluice::test
