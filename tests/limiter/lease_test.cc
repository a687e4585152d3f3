// The whole life of leases, with a healthy store and while the store fails.
#include <gmock/gmock.h>

#include <thread>

#include "limiter/lease_name.h"
#include "tests/limiter/fixture.h"
#include "tests/store/blocking_check.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class LeaseTest : public LimiterTest {
 protected:
  static Concurrency Slots(std::int64_t limit, Duration ttl = seconds(30)) {
    return {.limit = limit, .ttl = ttl};
  }
  static Rule InShadow(Rule rule) {
    rule.shadow = true;
    return rule;
  }
  static Rule WithPolicy(OnStoreFailure policy) {
    Rule rule = RuleOf("r", {Slots(1)});
    rule.on_store_failure = policy;
    return rule;
  }

  // Takes a lease. Returns its id.
  std::string Take(std::uint64_t cost = 1) {
    const CheckAnswer answer = Check({}, cost);
    EXPECT_EQ(answer.decision, Decision::kAllowed);
    return answer.lease ? answer.lease->id : "";
  }
  std::int64_t Remaining(std::size_t limit = 0) {
    return Ask(RequestOf(Mode::kPeek)).limits.at(limit).verdict.remaining;
  }
  // Another server with the same store.
  struct AnotherServer {
    explicit AnotherServer(LeaseTest& test)
        : local(test.clock_),
          fallback(test.clock_),
          limiter({.store = test.store_, .local = local, .fallback = fallback, .metrics = metrics},
                  {}) {}

    FragileStore local;
    MetricsRegistry metrics;
    Fallback fallback;
    Limiter limiter;
  };

  ErrorCode RenewalError(const std::string& id) {
    const auto renewed = Renew(id);
    EXPECT_FALSE(renewed);
    return renewed ? ErrorCode::kInternal : renewed.error().code;
  }
};

TEST_F(LeaseTest, SeveralConcurrencyLimits_ShareOneLeaseForTheShortestTime) {
  SetRules({RuleOf("a", {Slots(5, seconds(60))}), RuleOf("b", {PerMinute(100), Slots(7)}),
            RuleOf("c", {Slots(9, seconds(45))})});
  const CheckAnswer answer = Check({}, 3);
  ASSERT_TRUE(answer.lease);
  EXPECT_EQ(answer.lease->ttl, seconds(30));
  EXPECT_EQ(answer.limits[0].verdict.remaining, 2);
  EXPECT_EQ(answer.limits[2].verdict.remaining, 4);

  clock_.Advance(seconds(20));
  EXPECT_EQ(Renew(answer.lease->id).value(), seconds(30));
  clock_.Advance(seconds(29));
  EXPECT_EQ(Remaining(0), 2);
  EXPECT_EQ(Remaining(2), 4);

  EXPECT_EQ(Release(answer.lease->id).value(), Duration::zero());
  EXPECT_EQ(Remaining(0), 5);
  EXPECT_EQ(Remaining(2), 7);
  EXPECT_EQ(RenewalError(answer.lease->id), ErrorCode::kNotFound);
}

// A check takes slots of only some of its concurrency limits.
TEST_F(LeaseTest, LimitsWithoutUnits_AreNotInTheLease) {
  struct Asks final : StoreCheck {
    void OnDecided() override {}
  } check;
  const Limit long_lived = Slots(5, seconds(60));
  const Limit short_lived = Slots(5, seconds(10));
  check.counters = {
      {.key = "sluice:{d/a/}:concurrency", .limit = &long_lived, .units = 2, .verdict = {}},
      {.key = "sluice:{d/b/}:concurrency", .limit = &short_lived, .units = 0, .verdict = {}},
      {.key = "sluice:{d/c/}:concurrency", .limit = &long_lived, .units = 3, .verdict = {}}};
  const IndexedRule rule;
  std::vector<LimitAnswer> limits(3);
  for (LimitAnswer& limit : limits) {
    limit.rule = &rule;
    limit.source = Source::kFallback;
    limit.verdict.admitted = true;
  }
  CheckLease lease;
  CheckRequest request;
  ASSERT_TRUE(lease.Prepare(check, request, limits));
  ASSERT_TRUE(check.lease);
  EXPECT_EQ(check.lease->ttl, seconds(60));
  ASSERT_TRUE(lease.Name(check, limits, {}, fallback_));
  const auto granted = fallback_.leases.Take(10, SteadyNow());
  ASSERT_EQ(granted.size(), 1u);
  ASSERT_EQ(granted[0].held.size(), 2u);
  EXPECT_EQ(granted[0].held[0].key, "sluice:{d/a/}:concurrency");
  EXPECT_EQ(granted[0].held[0].count, 2);
  EXPECT_EQ(granted[0].held[1].key, "sluice:{d/c/}:concurrency");
  EXPECT_EQ(granted[0].held[1].count, 3);

  for (CounterCheck& counter : check.counters) counter.units = 0;
  check.lease.reset();
  request.may_lease = false;
  EXPECT_TRUE(lease.Prepare(check, request, limits));
  EXPECT_FALSE(check.lease);
}

TEST_F(LeaseTest, LeaseNotRenewed_ExpiresInAllLimitsAtOnce) {
  SetRules({RuleOf("a", {Slots(5, seconds(60))}), RuleOf("b", {Slots(7)})});
  const std::string id = Take();
  clock_.Advance(seconds(30));
  EXPECT_EQ(Remaining(0), 5);
  EXPECT_EQ(Remaining(1), 7);
  EXPECT_EQ(RenewalError(id), ErrorCode::kNotFound);
  EXPECT_TRUE(Release(id));
}

TEST_F(LeaseTest, AnotherLimitDenies_NoLeaseIsTaken) {
  SetRules({RuleOf("rate", {PerMinute(1)}), RuleOf("slots", {Slots(5)})});
  Take();
  const CheckAnswer denied = Check();
  EXPECT_EQ(denied.decision, Decision::kDenied);
  EXPECT_FALSE(denied.lease);
  EXPECT_EQ(Remaining(1), 4);
}

TEST_F(LeaseTest, ConcurrencyDenies_TheOtherLimitsAreNotCharged) {
  SetRules({RuleOf("rate", {PerMinute(10)}), RuleOf("slots", {Slots(1)})});
  Take();
  const CheckAnswer denied = Check();
  EXPECT_EQ(denied.decision, Decision::kDenied);
  EXPECT_FALSE(denied.lease);
  EXPECT_EQ(denied.retry_after, seconds(30));
  EXPECT_EQ(Remaining(0), 9);
}

TEST_F(LeaseTest, NoConcurrencyLimit_NoLeaseIsTaken) {
  SetRules({RuleOf("rate", {PerMinute(10)})});
  EXPECT_FALSE(Check().lease);
}

TEST_F(LeaseTest, ShadowRuleAdmits_ItsSlotIsReleasedWithTheRest) {
  SetRules({RuleOf("today", {Slots(5)}), InShadow(RuleOf("tomorrow", {Slots(1)}))});
  const std::string both = Take();
  EXPECT_EQ(Remaining(1), 0);
  const std::string today_only = Take();
  EXPECT_TRUE(Renew(today_only)) << "the lease must not name slots that it does not hold";
  EXPECT_TRUE(Release(today_only));
  EXPECT_EQ(Remaining(1), 0);
  EXPECT_TRUE(Release(both));
  EXPECT_EQ(Remaining(0), 5);
  EXPECT_EQ(Remaining(1), 1);
}

TEST_F(LeaseTest, ShadowRuleDeniesByAnotherLimit_ItsSlotIsNotInTheLease) {
  SetRules({RuleOf("today", {Slots(5)}), InShadow(RuleOf("tomorrow", {Slots(5), PerMinute(1)}))});
  Take();
  const std::string second = Take();
  EXPECT_EQ(Remaining(1), 4);
  EXPECT_TRUE(Renew(second));
}

TEST_F(LeaseTest, OnlyAShadowRule_LeaseIsTakenIfTheRuleAdmits) {
  SetRules({InShadow(RuleOf("tomorrow", {Slots(1)}))});
  const std::string id = Take();
  EXPECT_NE(id, "");
  EXPECT_EQ(Take(), "") << "allowed, but the shadow rule holds no slot";
  EXPECT_TRUE(Release(id));
  EXPECT_EQ(Remaining(), 1);
  SetRules({InShadow(RuleOf("tomorrow", {Slots(1)}))}, {.unmatched = Unmatched::kDeny});
  EXPECT_FALSE(Check().lease);
  EXPECT_EQ(Remaining(), 1);
}

TEST_F(LeaseTest, CallerMayNotLease_SlotsOfAShadowRuleAreNotLeased) {
  SetRules({InShadow(RuleOf("tomorrow", {Slots(1)}))});
  CheckRequest request;
  request.may_lease = false;
  const CheckAnswer answer = Ask(request);
  EXPECT_EQ(answer.decision, Decision::kAllowed);
  EXPECT_FALSE(answer.lease);
}

TEST_F(LeaseTest, ShadowRule_DoesNotShortenTheLease) {
  SetRules({RuleOf("today", {Slots(5)}), InShadow(RuleOf("tomorrow", {Slots(5, seconds(1))}))});
  EXPECT_EQ(Check().lease->ttl, seconds(30));
}

// Rules with one counter each. A counter key has about 280 bytes, so at most seven keys fit into a
// lease id.
std::vector<Rule> LongNamedRules(int count) {
  std::vector<Rule> rules;
  for (int i = 0; i < count; ++i) {
    Rule rule;
    rule.name = std::to_string(i) + std::string(253, 'r');
    rule.limits.limits = {Concurrency{.limit = 5, .ttl = seconds(30)}};
    rules.push_back(std::move(rule));
  }
  return rules;
}

TEST_F(LeaseTest, MoreKeysThanFitIntoAnId_CheckIsRefused_NothingIsTaken) {
  SetRules(LongNamedRules(8));
  const auto answer = TryCheck();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(answer.error().message, HasSubstr("attributes"));
  EXPECT_EQ(store_.submitted, 0);
  EXPECT_EQ(Remaining(), 5) << "a peek needs no lease";
}

TEST_F(LeaseTest, ShadowSlotsThatDoNotFitIntoTheId_AreLeftToExpire) {
  std::vector<Rule> rules = LongNamedRules(10);
  for (std::size_t i = 1; i < rules.size(); ++i) rules[i].shadow = true;
  SetRules(rules);
  const std::string id = Take();
  EXPECT_LE(id.size(), 2048u);
  EXPECT_TRUE(Renew(id));
  EXPECT_TRUE(Release(id));
  EXPECT_EQ(Remaining(0), 5);
  EXPECT_EQ(Remaining(9), 4);
  clock_.Advance(seconds(30));
  EXPECT_EQ(Remaining(9), 5);
}

// The lease id `id`, with its ttl replaced by `ttl`.
std::string WithTtl(const std::string& id, Duration ttl) {
  LeaseName name = LeaseName::Parse(id).value();
  name.ttl = ttl;
  return name.ToText().value();
}

constexpr Duration kTenYears = std::chrono::days(3650);

TEST_F(LeaseTest, LeaseIdWithAnEditedTtl_NamesNoSlot) {
  SetRules({WithPolicy(OnStoreFailure::kLocal)});
  for (const bool fails : {false, true}) {
    if (fails) store_.failing = StoreFailure::kUnreachable;
    const std::string id = Take();
    for (const Duration ttl : {kTenYears, Duration(seconds(31)), Duration(seconds(1))}) {
      const std::string edited = WithTtl(id, ttl);
      EXPECT_EQ(RenewalError(edited), fails ? ErrorCode::kUnavailable : ErrorCode::kNotFound);
      EXPECT_EQ(Release(edited).has_value(), !fails) << "there is nothing to give back";
    }
    EXPECT_EQ(Renew(id).value(), seconds(30)) << "the lease is still held";
    clock_.Advance(seconds(30));
    EXPECT_EQ(Remaining(), 1);
  }
}

TEST_F(LeaseTest, StoreFails_LeaseIsTakenRenewedAndReleasedHere) {
  SetRules({WithPolicy(OnStoreFailure::kLocal)});
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take();
  EXPECT_EQ(Check().decision, Decision::kDenied);
  const int submitted = store_.submitted;
  clock_.Advance(seconds(20));
  EXPECT_EQ(Renew(id).value(), seconds(30));
  clock_.Advance(seconds(20));
  EXPECT_EQ(Check().decision, Decision::kDenied);
  store_.failing.reset();
  EXPECT_TRUE(Renew(id)) << "although the store may be back, the lease is still here";
  EXPECT_TRUE(Release(id));
  EXPECT_EQ(store_.submitted, submitted + 1) << "one call by the check, none by the lease";
  store_.failing = StoreFailure::kUnreachable;
  EXPECT_NE(Take(), "");
}

TEST_F(LeaseTest, LeaseGrantedElsewhereWithoutTheStore_IsRenewedHereWhenTheStoreIsBack) {
  SetRules({RuleOf("r", {Slots(5)})});
  AnotherServer here(*this);
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(2);
  EXPECT_EQ(Renew(here.limiter, id).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Release(here.limiter, id).error().code, ErrorCode::kUnavailable);
  store_.failing.reset();
  for (int i = 0; i < 5; ++i) fallback_.Reconcile();
  EXPECT_EQ(Remaining(), 3);
  clock_.Advance(seconds(20));
  EXPECT_EQ(Renew(here.limiter, id).value(), seconds(30));
  clock_.Advance(seconds(20));
  EXPECT_EQ(Remaining(), 3) << "renewed";
  EXPECT_TRUE(Release(here.limiter, id));
  EXPECT_EQ(Remaining(), 5);
  EXPECT_EQ(Renew(here.limiter, id).error().code, ErrorCode::kNotFound);
}

// The other server may not have reported its grants yet.
TEST_F(LeaseTest, LeaseGrantedElsewhere_StoreHasJustComeBack_IsNotReportedAsLost) {
  SetRules({RuleOf("r", {Slots(5)})});
  AnotherServer here(*this);
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(2);
  store_.failing.reset();
  here.fallback.OnPartLost(0);
  clock_.Advance(seconds(1));
  here.fallback.OnPartFound(0);
  EXPECT_EQ(Renew(here.limiter, id).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Release(here.limiter, id).error().code, ErrorCode::kUnavailable);
}

TEST_F(LeaseTest, StoreIsBack_CountsTheLeasesGrantedWithoutIt) {
  SetRules({RuleOf("r", {Slots(5)})});
  const auto tell_store = [&] {
    for (int i = 0; i < 5; ++i) fallback_.Reconcile();
  };
  Take(3);
  store_.failing = StoreFailure::kUnreachable;
  const std::string kept = Take(2);
  const std::string released_before = Take(1);
  EXPECT_TRUE(Release(released_before));
  const std::string released_after = Take(2);
  tell_store();
  store_.failing.reset();
  EXPECT_EQ(Remaining(), 2);
  tell_store();
  EXPECT_EQ(Check().decision, Decision::kDenied);
  clock_.Advance(seconds(10));
  EXPECT_TRUE(Renew(kept));
  EXPECT_TRUE(Release(released_after));
  tell_store();
  EXPECT_EQ(Remaining(), 0) << "three granted by the store, two without it";
  clock_.Advance(seconds(21));
  EXPECT_EQ(Remaining(), 3) << "only the renewed lease is still held";
  EXPECT_TRUE(Release(kept));
  tell_store();
  EXPECT_EQ(Remaining(), 5);
}

// It is unknown whether the store has received the report of the lease, so this server sends the
// report again.
TEST_F(LeaseTest, StoreAnswersTooLate_LeaseGrantedWithoutItIsCountedOnce) {
  SetRules({RuleOf("r", {Slots(5)})});
  store_.failing = StoreFailure::kUnreachable;
  const std::string id = Take(2);
  store_.failing = StoreFailure::kTimeout;
  store_.decides_unheard = true;
  fallback_.Reconcile();
  store_.failing.reset();
  EXPECT_EQ(Remaining(), 3);
  fallback_.Reconcile();
  EXPECT_EQ(Remaining(), 3);
  store_.failing = StoreFailure::kTimeout;
  EXPECT_TRUE(Release(id));
  fallback_.Reconcile();
  store_.failing.reset();
  fallback_.Reconcile();
  EXPECT_EQ(Remaining(), 5);
}

// The store granted 2 slots, but its reply was late. So this server granted 2 slots, too, and
// reported them after the outage. When the late reply arrives, only the first 2 slots are released.
TEST_F(LeaseTest, StoreGrantsTooLate_OneOfTheTwoGrantsIsGivenBack) {
  SetRules({RuleOf("r", {Slots(5)})});
  store_.failing = StoreFailure::kTimeout;
  store_.decides_unheard = true;
  const std::string id = Take(2);
  store_.failing.reset();
  fallback_.Reconcile();
  EXPECT_EQ(Remaining(), 1);

  const LeaseName name = LeaseName::Parse(id).value();
  BlockingCheck late({{name.counters[0].key, Slots(5)}}, 1, Mode::kSettle);
  late.lease = name.lease();
  late.RunOn(store_);
  EXPECT_EQ(Remaining(), 3);
}

// One node of a cluster is unavailable for longer than the others.
TEST_F(LeaseTest, LeaseCannotBeReported_OtherCountersAreCharged) {
  SetRules({RuleOf("r", {Slots(5)}), RuleOf("quota", {PerMinute(10)})});
  store_.failing = StoreFailure::kUnreachable;
  Take();
  store_.failing_key = ":concurrency";
  for (int i = 0; i < 10; ++i) fallback_.Reconcile();
  EXPECT_EQ(Value("sluice_fallback_units_total{fate=\"charged\"}"), 1);
}

TEST_F(LeaseTest, LeaseGrantedWithoutTheStore_ExpiresBeforeTheStoreIsBack_TakesNoSlot) {
  SetRules({RuleOf("r", {Slots(5, std::chrono::milliseconds(1))})});
  store_.failing = StoreFailure::kUnreachable;
  Take();
  store_.failing.reset();
  const SteadyTime expired = SteadyNow() + std::chrono::milliseconds(1);
  while (SteadyNow() <= expired) std::this_thread::yield();
  const int submitted = store_.submitted;
  fallback_.Reconcile();
  EXPECT_EQ(store_.submitted, submitted);
}

// The caller disconnected before it got the lease id.
TEST_F(LeaseTest, LeaseGrantedWithoutTheStore_IsGivenBack_TheStoreNeverCountsIt) {
  SetRules({WithPolicy(OnStoreFailure::kLocal)});
  store_.failing = StoreFailure::kUnreachable;
  limiter_.GiveLeaseBack(Take());
  EXPECT_EQ(Check({}, 0).limits[0].verdict.remaining, 1);
  store_.failing.reset();
  fallback_.Reconcile();
  EXPECT_EQ(Remaining(), 1);
}

TEST_F(LeaseTest, StoreFails_LeaseThatItGrantedStaysHeld) {
  SetRules({WithPolicy(OnStoreFailure::kLocal)});
  const std::string id = Take();
  store_.failing = StoreFailure::kTimeout;
  EXPECT_EQ(RenewalError(id), ErrorCode::kUnavailable);
  const auto released = Release(id);
  ASSERT_FALSE(released);
  EXPECT_EQ(released.error().code, ErrorCode::kUnavailable);
  store_.failing.reset();
  EXPECT_TRUE(Renew(id));
}

TEST_F(LeaseTest, CallersDeadlinePasses_LeaseStaysHeld) {
  SetRules({WithPolicy(OnStoreFailure::kLocal)});
  const std::string id = Take();
  store_.failing = StoreFailure::kCallerTimeout;
  EXPECT_EQ(RenewalError(id), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(Release(id).error().code, ErrorCode::kDeadlineExceeded);
  store_.failing.reset();
  EXPECT_TRUE(Renew(id));
}

TEST_F(LeaseTest, StoreFails_PolicyThatDoesNotCount_GivesNoLease) {
  for (const OnStoreFailure policy : {OnStoreFailure::kAllow, OnStoreFailure::kDeny}) {
    SetRules({WithPolicy(policy)});
    store_.failing = StoreFailure::kTimeout;
    const CheckAnswer answer = Check();
    EXPECT_EQ(answer.decision,
              policy == OnStoreFailure::kAllow ? Decision::kAllowed : Decision::kDenied);
    EXPECT_FALSE(answer.lease);
  }
}

TEST_F(LeaseTest, Renew_StoreDeadline_IsJustBeforeTheCallersDeadline) {
  SetRules({RuleOf("r", {Slots(1)})});
  const std::string id = Take();
  Holder holder(limiter_);
  SteadyTime callers;
  // If this thread was interrupted for too long, repeats the call.
  do {
    callers = SteadyNow() + std::chrono::milliseconds(5);
    holder.Start(LeaseCall::Action::kRenew, id, callers);
  } while (SteadyNow() >= callers);
  EXPECT_LT(store_.deadline, callers);
  EXPECT_GE(store_.deadline, callers - std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace sluice::test
