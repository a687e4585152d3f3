// Cached denials: the checks that they answer, how long they are valid, and what invalidates them.
#include "limiter/deny_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/admin/operators.h"
#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Limit kLimit = FixedWindow{.limit = 10, .window = seconds(60)};
constexpr SteadyTime kAsked{seconds(1000)};
constexpr SteadyTime kAnswered = kAsked + milliseconds(10);

DenyCache::Denial DenialOf(std::int64_t cost, std::optional<Duration> max_wait,
                           Duration retry_after) {
  return {.demand = {{.max_wait = max_wait}, cost},
          .verdict = {.limit = 10, .reset_after = seconds(30), .retry_after = retry_after},
          .decided_at = Time(seconds(5000)),
          .asked = kAsked,
          .answered = kAnswered};
}

TEST(DenyCache, Denial_AnswersEqualAndLargerDemandsOfTheSameLimit) {
  Clearings clearings;
  DenyCache cache(clearings);
  cache.Learn("k", kLimit, DenialOf(3, milliseconds(20), seconds(30)));
  struct Row {
    const char* what;
    const char* key;
    Limit limit;
    CounterDemand demand;
    bool known;
  };
  const Row rows[] = {
      {"equal", "k", kLimit, {{.max_wait = milliseconds(20)}, 3}, true},
      {"larger", "k", kLimit, {{.max_wait = milliseconds(20)}, 4}, true},
      {"less patient", "k", kLimit, {{.max_wait = milliseconds(0)}, 3}, true},
      {"smaller", "k", kLimit, {{.max_wait = milliseconds(20)}, 2}, false},
      {"more patient", "k", kLimit, {{.max_wait = milliseconds(21)}, 3}, false},
      {"the default max_wait", "k", kLimit, {{.max_wait = std::nullopt}, 3}, false},
      {"another counter", "l", kLimit, {{.max_wait = milliseconds(20)}, 3}, false},
      {"a raised limit",
       "k",
       FixedWindow{.limit = 11, .window = seconds(60)},
       {{.max_wait = milliseconds(20)}, 3},
       false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(cache.Find(row.key, row.limit, row.demand, kAsked).has_value(), row.known)
        << row.what;
  }
}

// The store denied a check that takes 3 units of counter "k" and 5 units of counter "l". Only "l"
// had too few units.
TEST(DenyCache, DenialOfOneCounter_AnswersChecksThatTakeAtLeastAsManyOfItsUnits) {
  struct Asks final : StoreCheck {
    Asks(std::int64_t first, std::int64_t second) {
      counters.push_back({.key = "k", .limit = &kLimit, .units = first, .verdict = {}});
      counters.push_back({.key = "l", .limit = &kLimit, .units = second, .verdict = {}});
    }
    void OnDecided() override {}
  };
  IndexedRule rule;
  Clearings clearings;
  DenyCache cache(clearings);
  Asks known(3, 5);
  known.counters[0].verdict.admitted = true;
  known.counters[1].verdict.retry_after = seconds(30);
  std::vector<LimitAnswer> limits(2);
  for (LimitAnswer& limit : limits) limit.rule = &rule;
  cache.LearnFrom({.check = known, .at = kAsked}, kAnswered, limits);
  struct Row {
    std::int64_t first;
    std::int64_t second;
    bool denied;
  };
  for (const Row& row : {Row{3, 5, true}, Row{0, 5, true}, Row{9, 6, true}, Row{3, 4, false},
                         Row{9, 0, false}, Row{11, 5, false}}) {
    SCOPED_TRACE(row.first);
    SCOPED_TRACE(row.second);
    const Asks asks(row.first, row.second);
    CheckAnswer answer{.limits = limits};
    EXPECT_EQ(cache.Denies({.check = asks, .at = kAnswered}, answer), row.denied);
  }
}

TEST(DenyCache, UnitsOfACounterAreBeingGivenBack_ItsDenialsAreNotUsed) {
  Clearings clearings;
  DenyCache cache(clearings);
  clearings.Begin("k");
  clearings.Begin("k");
  cache.Learn("k", kLimit, DenialOf(1, {}, seconds(30)));
  cache.Learn("l", kLimit, DenialOf(1, {}, seconds(30)));
  clearings.End("k", kAsked - milliseconds(5));
  EXPECT_FALSE(cache.Find("k", kLimit, {}, kAnswered));
  EXPECT_TRUE(cache.Find("l", kLimit, {}, kAnswered));
  clearings.End("k", kAsked - milliseconds(5));
  EXPECT_TRUE(cache.Find("k", kLimit, {}, kAnswered));
}

// Clearings record when this server learned that units were given back. A check that is submitted
// after this time is decided with these units.
TEST(DenyCache, UnitsWereGivenBack_DenialsOfEarlierChecksAreVoid) {
  Clearings clearings;
  DenyCache cache(clearings);
  cache.Learn("k", kLimit, DenialOf(1, {}, seconds(30)));
  cache.Learn("l", kLimit, DenialOf(1, {}, seconds(30)));
  clearings.Note("k", kAsked);
  EXPECT_TRUE(cache.Find("k", kLimit, {}, kAnswered));
  clearings.Note("k", kAsked + milliseconds(5));
  clearings.Note("k", kAsked - milliseconds(5));  // reported late by another thread
  EXPECT_FALSE(cache.Find("k", kLimit, {}, kAnswered));
  EXPECT_TRUE(cache.Find("l", kLimit, {}, kAnswered));
  cache.Learn("k", kLimit, DenialOf(1, {}, seconds(30)));
  EXPECT_FALSE(cache.Find("k", kLimit, {}, kAnswered));
}

TEST(DenyCache, Denial_IsValidForOneSecond_TimesCountDown) {
  Clearings clearings;
  DenyCache cache(clearings);
  cache.Learn("long", kLimit, DenialOf(1, {}, seconds(30)));
  cache.Learn("short", kLimit, DenialOf(1, {}, milliseconds(300)));
  const auto found = cache.Find("long", kLimit, {}, kAsked + milliseconds(400));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict.retry_after, seconds(30) - milliseconds(390));
  EXPECT_EQ(found->verdict.reset_after, seconds(30) - milliseconds(390));
  EXPECT_EQ(found->decided_at, Time(seconds(5000)) + milliseconds(390));
  EXPECT_TRUE(cache.Find("long", kLimit, {}, kAsked + milliseconds(899)));
  EXPECT_FALSE(cache.Find("long", kLimit, {}, kAsked + seconds(1)));
  EXPECT_TRUE(cache.Find("short", kLimit, {}, kAsked + milliseconds(300) - Duration(1)));
  EXPECT_FALSE(cache.Find("short", kLimit, {}, kAsked + milliseconds(300)));
}

// The store may have decided just before its answer arrived.
TEST(DenyCache, StoreMayDecideLate_RetryAfterCountsFromTheAnswer) {
  Clearings clearings;
  DenyCache cache(clearings);
  cache.Learn("k", kLimit, DenialOf(1, {}, milliseconds(300)));
  const SteadyTime now = kAsked + milliseconds(100);
  const auto found = cache.Find("k", kLimit, {}, now);
  ASSERT_TRUE(found);
  EXPECT_EQ(now + found->verdict.retry_after, kAnswered + milliseconds(300));
}

TEST(DenyCache, CostAboveTheLimit_HasNoRetryAfter) {
  Clearings clearings;
  DenyCache cache(clearings);
  cache.Learn("k", kLimit, DenialOf(1, {}, seconds(30)));
  EXPECT_NE(cache.Find("k", kLimit, {{}, 10}, kAsked)->verdict.retry_after, Verdict::kNever);
  EXPECT_EQ(cache.Find("k", kLimit, {{}, 11}, kAsked)->verdict.retry_after, Verdict::kNever);
}

// If no check refreshed a denial early, all checks would ask the store when the denial expires.
TEST(DenyCache, OldDenial_IsRefreshedByOneCheck_OthersAreDenied) {
  Clearings clearings;
  DenyCache cache(clearings);
  cache.Learn("k", kLimit, DenialOf(1, {}, seconds(30)));
  EXPECT_FALSE(cache.Find("k", kLimit, {}, kAsked + milliseconds(900)));
  EXPECT_TRUE(cache.Find("k", kLimit, {}, kAsked + milliseconds(900)));
  EXPECT_TRUE(cache.Find("k", kLimit, {}, kAsked + seconds(1) - Duration(1)));
  EXPECT_FALSE(cache.Find("k", kLimit, {}, kAsked + seconds(1)));
  DenyCache::Denial fresh = DenialOf(1, {}, seconds(30));
  fresh.asked += milliseconds(900);
  cache.Learn("k", kLimit, fresh);
  EXPECT_TRUE(cache.Find("k", kLimit, {}, kAsked + seconds(1)));
  EXPECT_FALSE(cache.Find("k", kLimit, {}, kAsked + milliseconds(1800)));
}

TEST(DenyCache, ManyDenials_StayBounded) {
  Clearings clearings;
  DenyCache cache(clearings);
  constexpr int kMany = 2 * static_cast<int>(DenyCache::kMaxEntries);
  for (int i = 0; i < kMany; ++i) {
    cache.Learn(std::to_string(i), kLimit, DenialOf(1, {}, seconds(30)));
  }
  std::size_t known = 0;
  for (int i = 0; i < kMany; ++i) {
    known += cache.Find(std::to_string(i), kLimit, {}, kAsked).has_value() ? 1 : 0;
  }
  EXPECT_LE(known, DenyCache::kMaxEntries);
  EXPECT_GT(known, DenyCache::kMaxEntries / 2);
}

// Expired denials make room first.
TEST(DenyCache, ManyDenialsHaveExpired_NewOnesAreAllKept) {
  Clearings clearings;
  DenyCache cache(clearings);
  constexpr int kMany = 2 * static_cast<int>(DenyCache::kMaxEntries);
  for (int i = 0; i < kMany; ++i) {
    cache.Learn("old" + std::to_string(i), kLimit, DenialOf(1, {}, milliseconds(1)));
  }
  DenyCache::Denial fresh = DenialOf(1, {}, seconds(30));
  fresh.asked += seconds(2);
  for (int i = 0; i < kMany / 4; ++i) cache.Learn(std::to_string(i), kLimit, fresh);
  for (int i = 0; i < kMany / 4; ++i) {
    EXPECT_TRUE(cache.Find(std::to_string(i), kLimit, {}, fresh.asked));
  }
}

class DenyCacheTest : public LimiterTest {
 protected:
  DenyCacheTest() {
    Rule site = RuleOf("site", {FixedWindow{.limit = 2, .window = seconds(60)}});
    Rule user = RuleOf("user", {FixedWindow{.limit = 9, .window = seconds(60)}});
    user.per.push_back({.attribute = "user", .ipv4_prefix = {}, .ipv6_prefix = {}});
    SetCachedRules({site, user});
  }

  void SetCachedRules(std::vector<Rule> rules) {
    Domain domain;
    domain.name = "shop";
    domain.rules = std::move(rules);
    cached_.SetRules(RuleIndex::Build({domain}, {}).value());
  }

  CheckAnswer Ask(const std::string& user, Mode mode = Mode::kConsume, bool charge_decides = false,
                  std::int64_t cost = 1) {
    cached_call_.request.Clear();
    cached_call_.request.cost = cost;
    cached_call_.request.charge_decides = charge_decides;
    cached_call_.request.domain = "shop";
    cached_call_.request.attributes = {{"user", user}};
    cached_call_.request.demand.mode = mode;
    cached_call_.Start();
    return cached_call_.answer->value();
  }

  // Starts a check. The store decides it now and returns it later.
  const Call& Hold(const std::string& user) {
    Call& call = *calls_.emplace_back(std::make_unique<Call>(cached_));
    call.request.domain = "shop";
    call.request.attributes = {{"user", user}};
    store_.holds = true;
    call.Start();
    store_.holds = false;
    return call;
  }

  // Fills the site's limit, and lets the server learn the denial.
  void Fill() {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Ask("a").decision, Decision::kAllowed);
    EXPECT_EQ(Ask("a").source, Source::kStore);
    submitted_ = store_.submitted;
  }
  bool ResetSite() {
    CheckRequest request;
    request.domain = "shop";
    return ResetLimit(cached_, request, "site").has_value();
  }
  int CallsOfTheStore() const { return store_.submitted - submitted_; }

  Limiter cached_{{.store = store_, .local = local_, .fallback = fallback_, .metrics = metrics_},
                  {.deny_cache = true}};
  Call cached_call_{cached_};
  std::vector<std::unique_ptr<Call>> calls_;
  int submitted_ = 0;
};

TEST_F(DenyCacheTest, FullSharedCounter_DeniesEverybodyWithoutTheStore) {
  Fill();
  for (const char* user : {"a", "b", "c"}) {
    const CheckAnswer answer = Ask(user);
    EXPECT_EQ(answer.decision, Decision::kDenied);
    EXPECT_EQ(answer.source, Source::kDenyCache);
    ASSERT_EQ(answer.limits.size(), 1u);
    EXPECT_EQ(answer.limits[0].rule->rule.name, "site");
    EXPECT_EQ(answer.limits[0].source, Source::kDenyCache);
    EXPECT_GT(answer.retry_after.value(), seconds(50));
  }
  EXPECT_EQ(Ask("d", Mode::kPeek).source, Source::kDenyCache);
  EXPECT_EQ(CallsOfTheStore(), 0);
}

TEST_F(DenyCacheTest, SettlementThatGivesUnitsBack_VoidsTheDenial) {
  Call call(cached_);
  call.request.domain = "shop";
  call.request.attributes = {{"user", "a"}};
  call.request.lease_ttl = seconds(60);
  call.Start();
  const CheckAnswer& taken = call.answer->value();
  ASSERT_TRUE(taken.lease);
  EXPECT_EQ(Ask("a").decision, Decision::kAllowed);
  EXPECT_EQ(Ask("a").decision, Decision::kDenied);
  EXPECT_EQ(Ask("b").source, Source::kDenyCache);
  EXPECT_TRUE(CallLease(cached_, LeaseCall::Action::kSettle, taken.lease->id, {0, {}}));
  EXPECT_EQ(Ask("b").decision, Decision::kAllowed);
}

TEST_F(DenyCacheTest, Charge_IsAlwaysSentToTheStore) {
  Fill();
  EXPECT_EQ(Ask("a", Mode::kCharge).source, Source::kStore);
  EXPECT_EQ(CallsOfTheStore(), 1);
}

// If a limit is known to be exceeded, a charge with `charge_decides` is denied and not counted.
// After a denied consume, the limit is only known to be full, so the first charge is still counted.
TEST_F(DenyCacheTest, ChargeThatDecides_LimitIsExceeded_IsDeniedWithoutTheStore) {
  Fill();
  EXPECT_EQ(Ask("a", Mode::kCharge, true).source, Source::kStore);
  EXPECT_EQ(CallsOfTheStore(), 1);
  const CheckAnswer known = Ask("b", Mode::kCharge, true);
  EXPECT_EQ(known.decision, Decision::kDenied);
  EXPECT_EQ(known.source, Source::kDenyCache);
  EXPECT_EQ(Ask("b").source, Source::kDenyCache);
  EXPECT_EQ(CallsOfTheStore(), 1);
  EXPECT_EQ(Ask("b", Mode::kCharge).source, Source::kStore);
  EXPECT_EQ(Ask("b", Mode::kRefund).source, Source::kStore);
  EXPECT_EQ(Ask("b", Mode::kCharge, true).source, Source::kStore);
}

// The charge can never fit. Other checks fit when the window ends.
TEST_F(DenyCacheTest, ChargeThatDecides_CostIsAboveTheLimit_OthersLearnWhenToRetry) {
  const CheckAnswer beyond = Ask("a", Mode::kCharge, true, 10);
  EXPECT_EQ(beyond.decision, Decision::kDenied);
  EXPECT_FALSE(beyond.retry_after);
  const CheckAnswer known = Ask("b");
  EXPECT_EQ(known.source, Source::kDenyCache);
  EXPECT_GT(known.retry_after.value_or(Duration::zero()), seconds(50));
}

// A holder may release its slot at any time, even on another server.
TEST_F(DenyCacheTest, ConcurrencyDenial_IsNotRemembered) {
  SetCachedRules({RuleOf("slots", {Concurrency{.limit = 1, .ttl = seconds(60)}})});
  const std::string lease = Ask("a").lease->id;
  EXPECT_EQ(Ask("b").decision, Decision::kDenied);
  ASSERT_TRUE(Release(lease));
  EXPECT_EQ(Ask("b").decision, Decision::kAllowed);
}

TEST_F(DenyCacheTest, ChargeThatDecides_BucketIsExceeded_DenialIsNotRemembered) {
  SetCachedRules({RuleOf("bucket", {TokenBucket{.rate = 1, .period = seconds(60), .burst = 1}})});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask("a", Mode::kCharge, true).source, Source::kStore);
}

// The site's limit is full, so its denial has a retry_after. The user's limit is not full, but it
// can never admit a cost of 10.
TEST_F(DenyCacheTest, CostAboveAnotherLimit_HasNoRetryAfter) {
  Fill();
  EXPECT_TRUE(Ask("a").retry_after);
  for (const Source source : {Source::kStore, Source::kDenyCache}) {
    const CheckAnswer never = Ask("a", Mode::kConsume, false, 10);
    EXPECT_EQ(never.source, source);
    EXPECT_FALSE(never.retry_after);
    EXPECT_EQ(never.limits.size(), 2u);
    for (const LimitAnswer& limit : never.limits) EXPECT_EQ(limit.source, source);
  }
}

// A peek stores nothing. If its denial answered the next checks, the bucket would never begin to
// fill.
TEST_F(DenyCacheTest, PeekAtABucketThatStartsEmpty_IsNotRemembered) {
  SetCachedRules(
      {RuleOf("bucket",
              {TokenBucket{.rate = 1, .period = seconds(60), .burst = 1, .starts_empty = true}})});
  EXPECT_EQ(Ask("a", Mode::kPeek).source, Source::kStore);
  EXPECT_EQ(Ask("a").source, Source::kStore);
  EXPECT_EQ(Ask("a").source, Source::kDenyCache);
}

// Two limits of different rates share a bucket. Each fills the bucket at its own rate.
TEST_F(DenyCacheTest, AnotherLimitOfTheBucketTakesUnits_DenialIsForgotten) {
  const std::pair<Limit, Limit> rows[] = {
      {TokenBucket{.rate = 60, .period = seconds(60), .burst = 60},
       TokenBucket{.rate = 6000, .period = seconds(60), .burst = 60}},
      {LeakyBucket{.rate = 60, .period = seconds(60), .queue = 59, .delays = false},
       LeakyBucket{.rate = 6000, .period = seconds(60), .queue = 59, .delays = false}}};
  for (const auto& [slow, fast] : rows) {
    for (const Mode mode : {Mode::kConsume, Mode::kCharge}) {
      SCOPED_TRACE(CounterTag(slow));
      SCOPED_TRACE(static_cast<int>(mode));
      Rule rule = RuleOf("site", {slow});
      rule.overrides = {{.match = {{"user", {Pattern::Kind::kExact, "fast", {}}}}, .limits = {}}};
      rule.overrides[0].limits.limits = {fast};
      SetCachedRules({rule});
      ASSERT_TRUE(ResetSite());
      EXPECT_EQ(Ask("slow", Mode::kConsume, false, 60).decision, Decision::kAllowed);
      EXPECT_EQ(Ask("slow", Mode::kConsume, false, 5).decision, Decision::kDenied);
      clock_.Advance(seconds(2));
      EXPECT_EQ(Ask("slow").source, Source::kStore);
      EXPECT_EQ(Ask("slow", Mode::kConsume, false, 5).source, Source::kDenyCache)
          << "its own limit took units";
      EXPECT_EQ(Ask("fast", Mode::kPeek).source, Source::kStore);
      EXPECT_EQ(Ask("slow", Mode::kConsume, false, 5).source, Source::kDenyCache)
          << "a peek does not fill the bucket";
      clock_.Advance(seconds(1));
      EXPECT_EQ(Ask("fast", mode).source, Source::kStore);
      EXPECT_EQ(Ask("slow", Mode::kConsume, false, 5).decision, Decision::kAllowed);
    }
  }
}

TEST_F(DenyCacheTest, RefundOrResetOrNewRules_DenialIsForgotten) {
  Fill();
  EXPECT_EQ(Ask("a", Mode::kRefund).decision, Decision::kAllowed);
  EXPECT_EQ(Ask("b").decision, Decision::kAllowed) << "after a refund";

  EXPECT_EQ(Ask("b").source, Source::kStore);
  EXPECT_EQ(Ask("b").source, Source::kDenyCache);
  ASSERT_TRUE(ResetSite());
  EXPECT_EQ(Ask("b").decision, Decision::kAllowed) << "after a reset";

  EXPECT_EQ(Ask("c").decision, Decision::kAllowed);
  EXPECT_EQ(Ask("c").source, Source::kStore);
  EXPECT_EQ(Ask("c").source, Source::kDenyCache);
  SetCachedRules({RuleOf("site", {FixedWindow{.limit = 3, .window = seconds(60)}})});
  EXPECT_EQ(Ask("c").decision, Decision::kAllowed) << "after a raised limit";
}

// The store denied before units were given back, but its answer arrives afterward.
TEST_F(DenyCacheTest, RefundOrResetWhileACheckIsInFlight_ItsDenialIsNotRemembered) {
  for (const bool resets : {false, true}) {
    SCOPED_TRACE(resets);
    ASSERT_TRUE(ResetSite());
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Ask("a").decision, Decision::kAllowed);
    const Call& late = Hold("b");
    resets ? static_cast<void>(ResetSite()) : static_cast<void>(Ask("a", Mode::kRefund));
    store_.held.back()->OnDecided();
    EXPECT_EQ(late.answer->value().decision, Decision::kDenied);
    EXPECT_EQ(Ask("c").decision, Decision::kAllowed);
  }
}

// A check takes the last unit of one counter. Its other counter, on another node, fails, so the
// check is denied. Until the taken unit is given back, the first counter denies other checks.
TEST_F(DenyCacheTest, CheckIsBeingUndone_DenialsAreNotRemembered) {
  store_.listener = &fallback_;
  Rule site = RuleOf("site", {FixedWindow{.limit = 1, .window = seconds(60)}});
  Rule user = RuleOf("user", {FixedWindow{.limit = 9, .window = seconds(60)}});
  user.on_store_failure = OnStoreFailure::kDeny;
  SetCachedRules({site, user});
  for (const auto& order : {std::array{0u, 1u}, std::array{1u, 0u}}) {
    store_.held.clear();
    store_.failing = StoreFailure::kUnreachable;
    store_.failing_key = "user";
    const Call& undone = Hold("a");
    store_.failing.reset();
    const Call& other = Hold("b");
    ASSERT_EQ(store_.held.size(), 2u);
    for (const std::size_t number : order) store_.held[number]->OnDecided();
    EXPECT_EQ(undone.answer->value().decision, Decision::kDenied);
    EXPECT_EQ(other.answer->value().decision, Decision::kDenied);
    EXPECT_EQ(Ask("c", Mode::kPeek).source, Source::kStore);
  }
}

TEST_F(DenyCacheTest, Explain_ShowsAllCountersAsInTheStore) {
  Fill();
  CheckRequest request;
  request.domain = "shop";
  request.attributes = {{"user", "a"}};
  std::size_t shown = 0;
  ASSERT_TRUE(Explain(cached_, request, [&](const Explanation& explanation) {
    for (const ExplainedRule& rule : explanation.rules) {
      for (const ExplainedCounter& counter : rule.counters) {
        shown += counter.status.state_known && counter.status.source == Source::kStore ? 1 : 0;
      }
    }
  }));
  EXPECT_EQ(shown, 2u);
}

TEST_F(DenyCacheTest, RuleWithoutDenyCache_AsksTheStoreEachTime) {
  Rule site = RuleOf("site", {FixedWindow{.limit = 2, .window = seconds(60)}});
  site.deny_cache = false;
  SetCachedRules({site});
  Fill();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask("a").source, Source::kStore);
}

TEST_F(DenyCacheTest, AnswersOfAnOutage_AreNotRemembered) {
  store_.failing = StoreFailure::kUnreachable;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask("a").source, Source::kFallback);
  store_.failing.reset();
  EXPECT_EQ(Ask("a").source, Source::kStore);
}

}  // namespace
}  // namespace sluice::test
