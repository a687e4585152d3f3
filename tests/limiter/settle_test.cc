// Leases of units: a check takes an estimate, and the lease is settled with the units used. Tested
// with a healthy store, and while the store fails.
#include <gmock/gmock.h>

#include "limiter/lease_name.h"
#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

RuleLimit Of(Counts counts, Limit limit) {
  RuleLimit counting(std::move(limit));
  counting.counts = std::move(counts);
  return counting;
}

class SettleTest : public LimiterTest {
 protected:
  static CheckRequest Leased(std::int64_t tokens, Duration ttl = seconds(60)) {
    CheckRequest request;
    request.lease_ttl = ttl;
    request.amounts = {{"tokens", tokens}};
    return request;
  }
  // The rule of most tests. One limit counts requests, the other counts two units for each token.
  void SetTokenRule() {
    SetRules(
        {RuleOf("r", {Of({{"requests"}}, PerMinute(10)), Of({{"tokens", 2}}, PerMinute(1000))})});
  }
  // Takes a lease. Returns its id.
  std::string Take(const CheckRequest& request) {
    const CheckAnswer answer = Ask(request);
    EXPECT_EQ(answer.decision, Decision::kAllowed);
    return answer.lease ? answer.lease->id : "";
  }
  Result<LeaseReport> Settle(std::string_view id, const std::vector<Amount>& amounts,
                             std::optional<std::int64_t> cost = std::nullopt) {
    return CallLease(limiter_, LeaseCall::Action::kSettle, id, {cost, amounts});
  }
  LeaseOutcome Outcome(std::string_view id, const std::vector<Amount>& amounts = {}) {
    const auto report = Settle(id, amounts);
    EXPECT_TRUE(report) << report.error().message;
    return report ? report->outcome : LeaseOutcome::kNotFound;
  }
  std::int64_t Left(std::size_t limit = 0) {
    return Ask(RequestOf(Mode::kPeek)).limits.at(limit).verdict.remaining;
  }
  void TellStore() {
    for (int i = 0; i < 5; ++i) fallback_.Reconcile();
  }
  std::string Refused(const CheckRequest& request, ErrorCode code = ErrorCode::kInvalidArgument) {
    const auto answer = TryAsk(request);
    EXPECT_FALSE(answer);
    EXPECT_TRUE(answer || answer.error().code == code);
    return answer ? "" : answer.error().message;
  }
};

TEST_F(SettleTest, UnusedUnitsAreGivenBack_ExcessIsCharged_OtherAmountsStay) {
  SetTokenRule();
  const CheckAnswer taken = Ask(Leased(100));
  ASSERT_TRUE(taken.lease);
  EXPECT_EQ(taken.lease->ttl, seconds(60));
  const auto less = Settle(taken.lease->id, {{"tokens", 30}});
  ASSERT_TRUE(less) << less.error().message;
  EXPECT_EQ(less->outcome, LeaseOutcome::kSettled);
  ASSERT_EQ(less->limits.size(), 2u);
  EXPECT_EQ(less->limits[0].held, 1);
  EXPECT_EQ(less->limits[0].units, 1);
  EXPECT_EQ(less->limits[1].held, 200);
  EXPECT_EQ(less->limits[1].units, 60);
  EXPECT_EQ(less->limits[1].verdict.remaining, 940);
  EXPECT_EQ(LeaseName::RuleOf(less->limits[1].counter), "r");
  EXPECT_EQ(Left(0), 9);

  const auto more = Settle(Take(Leased(100)), {{"tokens", 600}, {"requests", 3}, {"token", 1}});
  ASSERT_TRUE(more);
  EXPECT_EQ(more->uncounted_amounts, (std::vector<std::string>{"token"}));
  EXPECT_EQ(Left(0), 6);
  EXPECT_EQ(Left(1), 0);
  EXPECT_EQ(Check().decision, Decision::kDenied) << "in debt";
  EXPECT_EQ(Value("sluice_leases_taken_total"), 2);
  EXPECT_EQ(Value("sluice_lease_units_total{change=\"returned\"}"), 140);
  EXPECT_EQ(Value("sluice_lease_units_total{change=\"charged\"}"), 1002);
  EXPECT_EQ(Value("sluice_lease_settlements_total{outcome=\"settled\"}"), 2);
}

// The digest that names the lease does not depend on whether the store granted the lease.
TEST_F(SettleTest, OnlyOneStore_IdEditedToLocal_SettlesTheLease) {
  Limiter alone({.store = local_, .local = local_, .fallback = fallback_, .metrics = metrics_}, {});
  Domain domain;
  domain.name = "shop";
  domain.rules = {RuleOf("r", {Of({{"tokens"}}, PerMinute(1000))})};
  alone.SetRules(RuleIndex::Build({domain}, {}).value());
  Call taken(alone);
  taken.request = Leased(400);
  taken.request.domain = "shop";
  taken.Start();
  const std::string id = taken.answer->value().lease.value().id;
  std::string edited = id;
  edited.replace(edited.find(".store"), 6, ".local");
  const std::vector<Amount> nothing{{"tokens", 0}};
  const auto settle = [&](std::string_view lease) {
    return CallLease(alone, LeaseCall::Action::kSettle, lease, {.amounts = nothing})->outcome;
  };
  EXPECT_EQ(settle(edited), LeaseOutcome::kSettled);
  EXPECT_EQ(settle(id), LeaseOutcome::kAlreadySettled);
}

TEST_F(SettleTest, ShadowRuleHasDenied_ItsUnitsAreNotCounted) {
  Rule shadow = RuleOf("shadow", {Of({{"tokens"}}, PerMinute(10))});
  shadow.shadow = true;
  SetRules({RuleOf("r", {Of({{"tokens"}}, PerMinute(1000))}), shadow});
  const auto settled = Settle(Take(Leased(50)), {{"tokens", 60}});
  ASSERT_TRUE(settled);
  ASSERT_EQ(settled->limits.size(), 2u);
  EXPECT_EQ(settled->limits[1].held, 0);
  EXPECT_EQ(Value("sluice_lease_units_total{change=\"charged\"}"), 10);
}

TEST_F(SettleTest, OnlyAShadowRule_LeaseIsTakenIfTheRuleAdmits) {
  Rule shadow = RuleOf("shadow", {Of({{"tokens"}}, PerMinute(10))});
  shadow.shadow = true;
  SetRules({shadow});
  const std::string id = Take(Leased(8));
  EXPECT_EQ(Take(Leased(3)), "") << "allowed, but nothing was taken";
  EXPECT_EQ(Outcome(id, {{"tokens", 1}}), LeaseOutcome::kSettled);
  EXPECT_NE(Take(Leased(3)), "");
}

// An estimate may be 0.
TEST_F(SettleTest, NothingWasTaken_UsedUnitsAreCounted) {
  SetTokenRule();
  EXPECT_EQ(Outcome(Take(Leased(0)), {{"tokens", 30}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Value("sluice_lease_units_total{change=\"charged\"}"), 60);
}

TEST_F(SettleTest, FirstSettlementDecides_ReleaseSettlesWithTheTakenUnits) {
  SetTokenRule();
  const std::string id = Take(Leased(100));
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Outcome(id, {{"tokens", 0}}), LeaseOutcome::kAlreadySettled);
  EXPECT_TRUE(Release(id));
  EXPECT_EQ(Left(1), 940);
  EXPECT_EQ(Renew(id).error().code, ErrorCode::kNotFound);

  const std::string other = Take(Leased(100));
  EXPECT_TRUE(Release(other));
  EXPECT_EQ(Outcome(other, {{"tokens", 0}}), LeaseOutcome::kAlreadySettled);
  EXPECT_EQ(Left(1), 740);
}

// The bucket has refilled since each take. So the settlements must not give units back. A full
// bucket would hide units given back, so the test takes 500 units before the settlements.
TEST_F(SettleTest, BurstLeasedEachSecond_AllSettledWithNothing_NoUnitsAreGivenBack) {
  SetRules({RuleOf(
      "r", {Of({{"tokens"}}, TokenBucket{.rate = 1000, .period = seconds(1), .burst = 1000})})});
  std::vector<std::string> ids;
  for (int i = 0; i < 60; ++i) {
    ids.push_back(Take(Leased(1000, minutes(5))));
    clock_.Advance(seconds(1));
  }
  CheckRequest plain;
  plain.amounts = {{"tokens", 500}};
  EXPECT_EQ(Ask(plain).decision, Decision::kAllowed);
  for (const std::string& id : ids) EXPECT_EQ(Outcome(id, {{"tokens", 0}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Left(), 500);
}

TEST_F(SettleTest, SlotsAndUnits_ShareOneLeaseForTheShortestTime) {
  SetRules({RuleOf(
      "r", {Concurrency{.limit = 5, .ttl = seconds(30)}, Of({{"tokens"}}, PerMinute(1000))})});
  const CheckAnswer answer = Ask(Leased(100));
  ASSERT_TRUE(answer.lease);
  EXPECT_EQ(answer.lease->ttl, seconds(30));
  clock_.Advance(seconds(20));
  EXPECT_EQ(Renew(answer.lease->id).value(), seconds(30));
  clock_.Advance(seconds(20));
  EXPECT_EQ(Left(0), 4);
  EXPECT_EQ(Outcome(answer.lease->id, {{"tokens", 40}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Left(0), 5);
  EXPECT_EQ(Left(1), 960);
}

TEST_F(SettleTest, LeaseIsNotSettled_StaysCharged_IsForgottenTenMinutesAfterItsEnd) {
  FixedWindow day{.limit = 1000, .window = std::chrono::hours(24)};
  SetRules({RuleOf("r", {Of({{"tokens"}}, day)})});
  const std::string id = Take(Leased(100));
  const std::string late = Take(Leased(100));
  clock_.Advance(seconds(60) + minutes(9));
  EXPECT_EQ(Renew(late).error().code, ErrorCode::kNotFound) << "the lease has ended";
  EXPECT_EQ(Outcome(late, {{"tokens", 0}}), LeaseOutcome::kSettled) << "but it can be settled";
  clock_.Advance(minutes(2));
  EXPECT_EQ(Outcome(id, {{"tokens", 0}}), LeaseOutcome::kNotFound);
  EXPECT_EQ(Left(), 900);
}

// While a lease is open, a reload may change limits, overrides or weights.
TEST_F(SettleTest, RulesChange_LeaseIsSettledByTheOldRules) {
  SetTokenRule();
  const std::string id = Take(Leased(100));
  SetRules({RuleOf("r", {Of({{"tokens", 50}}, PerMinute(2000))})});
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kSettled);
  SetTokenRule();
  EXPECT_EQ(Left(0), 9);
  EXPECT_EQ(Left(1), 940);
}

TEST_F(SettleTest, TtlOutOfBoundsOrNoPermission_IsRefused) {
  Rule brief = RuleOf("brief", {PerMinute(1000)});
  brief.max_lease_ttl = seconds(30);
  Rule shadow = RuleOf("shadow", {PerMinute(1000)});
  shadow.shadow = true;
  shadow.max_lease_ttl = seconds(1);
  SetRules({brief, shadow});
  EXPECT_EQ(Refused(Leased(1, seconds(31))),
            "lease_ttl: is 31s; rule \"brief\" allows at most 30s (max_lease_ttl)");
  EXPECT_THAT(Refused(Leased(1, Duration(99'999))), HasSubstr("allowed are 100ms to 1d"));
  EXPECT_THAT(Refused(Leased(1, std::chrono::days(1) + Duration(1))), HasSubstr("lease_ttl: is "));
  CheckRequest may_not = Leased(1, seconds(30));
  may_not.may_lease = false;
  EXPECT_THAT(Refused(may_not, ErrorCode::kPermissionDenied), HasSubstr("lease_ttl: "));
  EXPECT_NE(Take(Leased(1, seconds(30))), "");
  CheckRequest nothing = Leased(0, seconds(30));
  nothing.cost = 0;
  EXPECT_FALSE(Ask(nothing).lease) << "a check that takes nothing gets no lease";
}

TEST_F(SettleTest, HostileSettlements_ChangeNothing) {
  SetTokenRule();
  const std::string id = Take(Leased(100));
  LeaseName edited = LeaseName::Parse(id).value();
  edited.amounts[1].value = 400;
  EXPECT_EQ(Outcome(*edited.ToText(), {{"tokens", 0}}), LeaseOutcome::kNotFound);
  edited = LeaseName::Parse(id).value();
  edited.counters[1].counts[0].weight = 5;
  EXPECT_EQ(Outcome(*edited.ToText(), {{"tokens", 0}}), LeaseOutcome::kNotFound);
  edited = LeaseName::Parse(id).value();
  edited.counters.pop_back();
  EXPECT_EQ(Outcome(*edited.ToText(), {{"tokens", 0}}), LeaseOutcome::kNotFound);
  const std::int64_t most = std::int64_t{1} << 53;
  EXPECT_THAT(Settle(id, {{"tokens", most}}).error().message, HasSubstr("more than 2^53"));
  EXPECT_THAT(Settle(id, {{"tokens", most + 1}}).error().message, HasSubstr("amounts[\"tokens\"]"));
  EXPECT_THAT(Settle(id, {}, -1).error().message, HasSubstr("cost: "));
  EXPECT_EQ(Settle("2.x", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Left(1), 800);
  EXPECT_EQ(Outcome(id, {{"tokens", 0}}), LeaseOutcome::kSettled);
}

TEST_F(SettleTest, CountersDoNotFitIntoAnId_CheckIsRefused_CountersOfShadowRulesAreLeftOut) {
  Counts counts;
  for (char c = 'a'; c < 'a' + 16; ++c) counts.push_back({.name = std::string(255, c)});
  const Rule longest = RuleOf("longest", {Of(counts, PerMinute(1'000))});
  SetRules({longest});
  CheckRequest request = Leased(1);
  request.amounts = {{counts[0].name, 1}};
  EXPECT_THAT(Refused(request), HasSubstr("do not fit into a lease id of 2048 bytes"));
  Rule shadow = longest;
  shadow.shadow = true;
  SetRules({RuleOf("r", {Of({{"tokens"}}, PerMinute(1000))}), shadow});
  const CheckAnswer answer = Ask(Leased(100));
  ASSERT_TRUE(answer.lease);
  EXPECT_EQ(answer.limits.size(), 1u);
  EXPECT_EQ(Outcome(answer.lease->id, {{"tokens", 10}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Left(), 990);
}

TEST_F(SettleTest, AnswerWasNotDelivered_LeaseIsSettledWithNothing) {
  SetTokenRule();
  const std::string id = Take(Leased(100));
  limiter_.GiveLeaseBack(id);
  EXPECT_EQ(Left(0), 10);
  EXPECT_EQ(Left(1), 1000);
  store_.failing = StoreFailure::kUnreachable;
  const std::string here = Take(Leased(100));
  limiter_.GiveLeaseBack(here);
  EXPECT_EQ(fallback_.charges.Find(LeaseName::Parse(here)->counters[1].key, clock_.Now()), 0);
}

TEST_F(SettleTest, Inspect_ShowsTheUnitsHeld) {
  SetTokenRule();
  const std::string id = Take(Leased(100));
  const auto open = CallLease(limiter_, LeaseCall::Action::kInspect, id);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->outcome, LeaseOutcome::kSettled);
  EXPECT_EQ(open->ends, clock_.Now() + seconds(60));
  ASSERT_EQ(open->limits.size(), 2u);
  EXPECT_EQ(open->limits[1].held, 200);
  EXPECT_EQ(Left(1), 800) << "nothing has changed";
  Outcome(id);
  EXPECT_NE(CallLease(limiter_, LeaseCall::Action::kInspect, id)->outcome, LeaseOutcome::kSettled);
}

TEST_F(SettleTest, StoreFails_SettlementIsQueued_ItsUnitsAreCounted) {
  SetTokenRule();
  store_.listener = &fallback_;
  const std::string id = Take(Leased(100));
  store_.failing = StoreFailure::kUnreachable;
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kQueued);
  store_.failing = StoreFailure::kCallerTimeout;
  const auto late = Settle(id, {{"tokens", 30}});
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("will be settled when the store answers"));
  store_.failing.reset();
  EXPECT_EQ(Left(1), 940) << "given back only once";
  EXPECT_EQ(Value("sluice_lease_settlements_total{outcome=\"queued\"}"), 1);
  EXPECT_EQ(Value("sluice_lease_units_total{change=\"returned\"}"), 140) << "counted only once";
}

// A settlement that gets no answer in time is queued. If the answer arrives late, the queued
// settlement will find the lease already settled. So only the late answer shows how many units the
// settlement gave back.
TEST_F(SettleTest, SettlementIsAnsweredLate_ItsUnitsAreCounted) {
  struct Late final : StoreCheck {
    void OnDecided() override {}
  } late;
  SetTokenRule();
  auto name = LeaseName::Parse(Take(Leased(100))).value();
  name.FillIn(late);
  late.demand.mode = Mode::kSettle;
  late.counters[1].units = 60;
  store_.Submit(late);
  fallback_.OnLateAnswer(late);
  EXPECT_EQ(Value("sluice_lease_units_total{change=\"returned\"}"), 140);
}

TEST_F(SettleTest, LeaseTakenAndSettledWithoutTheStore_OnlyUsedUnitsAreCharged) {
  SetTokenRule();
  store_.failing = StoreFailure::kUnreachable;
  const std::string less = Take(Leased(100));
  const std::string more = Take(Leased(100));
  EXPECT_EQ(Outcome(less, {{"tokens", 30}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Outcome(less, {{"tokens", 0}}), LeaseOutcome::kAlreadySettled);
  EXPECT_EQ(Outcome(more, {{"tokens", 110}}), LeaseOutcome::kSettled);
  store_.failing.reset();
  TellStore();
  EXPECT_EQ(Left(0), 8);
  EXPECT_EQ(Left(1), 1000 - 60 - 220);
}

TEST_F(SettleTest, LeaseOfNoTokensTakenAndSettledWithoutTheStore_UsedTokensAreChargedOnce) {
  SetTokenRule();
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(Leased(0));
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kAlreadySettled);
  EXPECT_EQ(Left(1), 940);
  store_.failing.reset();
  TellStore();
  EXPECT_EQ(Left(0), 9);
  EXPECT_EQ(Left(1), 940);
}

// The local counter exists before the settlement.
TEST_F(SettleTest, LeaseOfNoTokens_OthersUseTheLocalCounter_UsedTokensAreChargedOnce) {
  SetTokenRule();
  Take(Leased(50));
  store_.failing = StoreFailure::kUnreachable;
  Take(Leased(50));
  const std::string id = Take(Leased(0));
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kSettled);
  EXPECT_EQ(Left(1), 740);
  store_.failing.reset();
  TellStore();
  EXPECT_EQ(Left(1), 740);
}

TEST_F(SettleTest, LeaseOfNoTokens_ReportedBeforeItIsSettled_UsedTokensAreChargedOnce) {
  SetTokenRule();
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(Leased(0));
  store_.failing.reset();
  TellStore();
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kQueued);
  TellStore();
  EXPECT_EQ(Left(1), 940);
}

// Shadow rules are not charged for what is admitted without the store.
TEST_F(SettleTest, LeaseOfNoTokensWithoutTheStore_ShadowRuleIsNotCharged) {
  Rule shadow = RuleOf("shadow", {Of({{"tokens"}}, PerMinute(1000))});
  shadow.shadow = true;
  SetRules({RuleOf("r", {Of({{"requests"}}, PerMinute(10)), Of({{"tokens"}}, PerMinute(1000))}),
            shadow});
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(Leased(0));
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kSettled);
  store_.failing.reset();
  TellStore();
  EXPECT_EQ(Left(1), 970);
  EXPECT_EQ(Left(2), 1000);
}

TEST_F(SettleTest, LeaseTakenWithoutTheStore_IsEnteredInTheStore_AndSettledAtAnyServer) {
  SetTokenRule();
  FragileStore local(clock_);
  MetricsRegistry metrics;
  Fallback fallback(clock_);
  Limiter another({.store = store_, .local = local, .fallback = fallback, .metrics = metrics}, {});
  store_.failing = StoreFailure::kUnreachable;
  const std::string here = Take(Leased(100));
  const std::string there = Take(Leased(100));
  const std::vector<Amount> used{{"tokens", 30}};
  const auto settle_there = [&] {
    return CallLease(another, LeaseCall::Action::kSettle, there, {{}, used});
  };
  const auto too_early = settle_there();
  ASSERT_FALSE(too_early) << "when the store is back, it may not know of the lease yet";
  EXPECT_EQ(too_early.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(too_early.error().message, HasSubstr("settle the lease again"));
  store_.failing.reset();
  TellStore();
  EXPECT_EQ(Left(1), 600);
  EXPECT_EQ(settle_there()->outcome, LeaseOutcome::kSettled);
  EXPECT_EQ(settle_there()->outcome, LeaseOutcome::kAlreadySettled);
  EXPECT_EQ(Left(1), 740);
  EXPECT_EQ(Outcome(here, used), LeaseOutcome::kQueued);
  TellStore();
  EXPECT_EQ(Left(1), 880);
  EXPECT_EQ(Value("sluice_lease_units_total{change=\"returned\"}"), 140);
}

// The store has been charged, but does not know of the lease yet.
TEST_F(SettleTest, LeaseSettledBetweenChargeAndRecord_IsSettledInTheStoreAfterward) {
  SetTokenRule();
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(Leased(100));
  store_.failing.reset();
  while (fallback_.charges.size() > 0) fallback_.Reconcile();
  ASSERT_EQ(Left(1), 800) << "charged";
  EXPECT_TRUE(fallback_.leases.changes() > 0);
  EXPECT_EQ(Outcome(id, {{"tokens", 30}}), LeaseOutcome::kQueued);
  TellStore();
  EXPECT_EQ(Left(1), 940);
  EXPECT_EQ(Left(0), 9);
}

// The lease held requests, which the store has been charged with, and no tokens.
TEST_F(SettleTest, LeaseOfNoTokensSettledBetweenChargeAndRecord_UsedTokensAreChargedOnce) {
  SetTokenRule();
  store_.failing = StoreFailure::kUnreachable;
  CheckRequest request = Leased(0);
  request.amounts.push_back({"requests", 5});
  const std::string id = Take(request);
  store_.failing.reset();
  while (fallback_.charges.size() > 0) fallback_.Reconcile();
  EXPECT_EQ(Outcome(id, {{"requests", 2}, {"tokens", 30}}), LeaseOutcome::kQueued);
  TellStore();
  EXPECT_EQ(Left(0), 8);
  EXPECT_EQ(Left(1), 940);
}

// As above, but it is unknown whether the tokens were charged. So no server may give them back.
TEST_F(SettleTest, LeaseOfNoTokens_OutcomeOfTheChargeIsUnknown_TokensAreNotGivenBack) {
  SetTokenRule();
  FragileStore local(clock_);
  MetricsRegistry metrics;
  Fallback fallback(clock_);
  Limiter another({.store = store_, .local = local, .fallback = fallback, .metrics = metrics}, {});
  Take(Leased(100));
  store_.failing = StoreFailure::kUnreachable;
  CheckRequest request = Leased(0);
  request.amounts.push_back({"requests", 5});
  const std::string id = Take(request);
  store_.failing.reset();
  while (fallback_.charges.size() > 0) fallback_.Reconcile();
  EXPECT_EQ(Outcome(id, {{"requests", 2}, {"tokens", 30}}), LeaseOutcome::kQueued);
  store_.failing = StoreFailure::kTimeout;
  while (fallback_.charges.size() > 0) fallback_.Reconcile();
  store_.failing.reset();
  fallback_.Reconcile();
  const std::vector<Amount> nothing{{"tokens", 0}};
  EXPECT_EQ(CallLease(another, LeaseCall::Action::kSettle, id, {{}, nothing})->outcome,
            LeaseOutcome::kSettled);
  EXPECT_EQ(Left(1), 800);
}

// This server settles the lease before the store has the lease's record, and charges the units
// beyond the estimate. Then it writes the record, which includes these units. Then another server
// is the first that settles the lease in the store.
TEST_F(SettleTest, LeaseSettledWithMoreBeforeTheRecord_FirstSettlementInTheStoreCounts) {
  SetTokenRule();
  FragileStore local(clock_);
  MetricsRegistry metrics;
  Fallback fallback(clock_);
  Limiter another({.store = store_, .local = local, .fallback = fallback, .metrics = metrics}, {});
  const auto settle = [](Limiter& limiter, const std::string& id, std::int64_t requests,
                         std::int64_t tokens) {
    const std::vector<Amount> used{{"requests", requests}, {"tokens", tokens}};
    return CallLease(limiter, LeaseCall::Action::kSettle, id, {{}, used})->outcome;
  };
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(Leased(100));
  store_.failing.reset();
  while (fallback_.charges.size() > 0) fallback_.Reconcile();
  ASSERT_EQ(Left(1), 800);
  EXPECT_EQ(settle(limiter_, id, 0, 110), LeaseOutcome::kQueued);
  fallback_.Reconcile();
  EXPECT_EQ(Left(1), 780) << "the units beyond the estimate are charged";
  fallback_.Reconcile();
  EXPECT_EQ(settle(another, id, 1, 100), LeaseOutcome::kSettled);
  TellStore();
  EXPECT_EQ(Left(0), 9);
  EXPECT_EQ(Left(1), 800);
}

// The failing counter is on another node of a cluster. If that node did run the check, the store
// settles the lease there with 0.
TEST_F(SettleTest, OneCounterFails_ItStaysAsTaken_TheOtherIsSettled) {
  SetRules({RuleOf("r", {Of({{"tokens"}}, PerMinute(1000))}),
            RuleOf("failing", {Of({{"tokens"}}, PerMinute(1000))})});
  store_.failing = StoreFailure::kTimeout;
  store_.failing_key = "failing";
  const std::string id = Take(Leased(100));
  store_.failing.reset();
  TellStore();
  const auto report = Settle(id, {{"tokens", 10}});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->outcome, LeaseOutcome::kSettled);
  ASSERT_EQ(report->limits.size(), 1u);
  EXPECT_EQ(LeaseName::RuleOf(report->limits[0].counter), "r");
  EXPECT_EQ(Left(0), 990);
  EXPECT_EQ(Left(1), 900);
  EXPECT_EQ(Outcome(id), LeaseOutcome::kAlreadySettled);
}

// The store has the lease's record, but the store's answer was lost. So this server must not settle
// the lease without the store.
TEST_F(SettleTest, OutcomeOfTheRecordIsUnknown_LeaseIsSettledOnce_SlotsAreReleased) {
  SetRules({RuleOf("r", {Concurrency{.limit = 5, .ttl = seconds(30)}})});
  FragileStore local(clock_);
  MetricsRegistry metrics;
  Fallback fallback(clock_);
  Limiter another({.store = store_, .local = local, .fallback = fallback, .metrics = metrics}, {});
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(Leased(100));
  store_.failing = StoreFailure::kTimeout;
  store_.decides_unheard = true;
  fallback_.Reconcile();
  store_.failing.reset();
  ASSERT_EQ(Left(0), 4);
  EXPECT_EQ(Outcome(id), LeaseOutcome::kQueued);
  TellStore();
  EXPECT_EQ(Left(0), 5);
  EXPECT_EQ(CallLease(another, LeaseCall::Action::kSettle, id)->outcome,
            LeaseOutcome::kAlreadySettled);
}

// It is unknown whether the charge has run. So it is not repeated, and no units are given back.
TEST_F(SettleTest, OutcomeOfTheChargeIsUnknown_SettlingChangesNothing) {
  SetTokenRule();
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(Leased(100));
  store_.failing = StoreFailure::kTimeout;
  while (fallback_.charges.size() > 0) fallback_.Reconcile();
  store_.failing.reset();
  Take(Leased(100));
  TellStore();
  ASSERT_EQ(Left(1), 800);
  EXPECT_EQ(Outcome(id, {{"tokens", 0}}), LeaseOutcome::kQueued);
  TellStore();
  EXPECT_EQ(Left(1), 800);
}

TEST_F(SettleTest, EmbeddedStoreHasNoRoom_ErrorNamesTheMaximum) {
  Limiter embedded({.store = store_, .local = store_, .fallback = fallback_, .metrics = metrics_},
                   {});
  Domain domain{
      .name = "shop", .unmatched = {}, .colocate = "", .rules = {RuleOf("r", {PerMinute(9)})}};
  embedded.SetRules(RuleIndex::Build({domain}, {}).value());
  store_.failing = StoreFailure::kOverloaded;
  Call call(embedded);
  call.request = Leased(1);
  call.request.domain = "shop";
  call.Start();
  ASSERT_FALSE(*call.answer);
  EXPECT_EQ(call.answer->error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(call.answer->error().message, HasSubstr("100000 open leases"));
}

}  // namespace
}  // namespace sluice::test
