// Decisions by prefetched units: when a server asks for units, what it decides with them, and when
// it returns them.
#include "limiter/grant_table.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The limiters prefetch units, as if the store were Redis.
class GrantTableTest : public LimiterTest {
 protected:
  GrantTableTest() { SetRules(shop_, {RuleOf("all", {kLimit})}); }

  static constexpr FixedWindow kLimit{
      .limit = 1'000, .window = seconds(60), .prefetch = kMaxPrefetch};

  void SetRules(Limiter& limiter, std::vector<Rule> rules) {
    LimiterTest::SetRules(rules);
    Domain domain;
    domain.name = "shop";
    domain.rules = std::move(rules);
    limiter.SetRules(RuleIndex::Build({domain}, {}).value());
  }

  CheckAnswer Consume(std::int64_t cost = 1, bool in_order = false) {
    CheckRequest request = RequestOf(Mode::kConsume, static_cast<std::uint64_t>(cost));
    request.in_order = in_order;
    return Send(std::move(request));
  }
  CheckAnswer Send(CheckRequest request) {
    request.domain = "shop";
    asker_.request = std::move(request);
    asker_.Start();
    const auto answer = asker_.answer.value();
    EXPECT_TRUE(answer);
    return answer ? *answer : CheckAnswer{};
  }

  // Sends checks until one is decided here.
  CheckAnswer ConsumeUntilGranted() {
    for (int i = 0; i < 20; ++i) {
      const CheckAnswer answer = Consume();
      if (answer.source == Source::kGrant) return answer;
    }
    ADD_FAILURE() << "no check was decided here";
    return {};
  }

  // The units that the store counts, including grants.
  std::int64_t Counted() {
    return kLimit.limit - Ask(RequestOf(Mode::kPeek)).limits.at(0).verdict.remaining;
  }

  double Units(const std::string& fate) const {
    return Value("sluice_grant_units_total{fate=\"" + fate + "\"}");
  }

  Limiter shop_{{.store = store_, .local = local_, .fallback = fallback_, .metrics = metrics_},
                {.store_timeout = seconds(60), .deny_cache = true}};
  Call asker_{shop_};
};

TEST_F(GrantTableTest, BusyCounter_IsDecidedWithoutTheStore) {
  const CheckAnswer first = ConsumeUntilGranted();
  EXPECT_EQ(first.decision, Decision::kAllowed);
  EXPECT_EQ(first.limits.at(0).source, Source::kGrant);
  const int submitted = store_.submitted;
  const CheckAnswer second = Consume();
  EXPECT_EQ(second.source, Source::kGrant);
  EXPECT_EQ(second.limits.at(0).verdict.remaining, first.limits.at(0).verdict.remaining - 1);
  EXPECT_EQ(second.decided_at, first.decided_at);
  EXPECT_EQ(store_.submitted, submitted);
}

TEST_F(GrantTableTest, ManyChecks_UseExactlyTheLimit) {
  std::int64_t allowed = 0;
  for (int i = 0; i < 3'000; ++i) allowed += Consume().decision == Decision::kAllowed ? 1 : 0;
  EXPECT_EQ(allowed, kLimit.limit);
  EXPECT_LT(store_.submitted, 200);  // when few units are left, the store decides
}

TEST_F(GrantTableTest, Remaining_IncludesUnitsHeldHere) {
  std::int64_t used = 0;
  int by_grant = 0;
  for (int i = 0; i < 300; ++i) {
    ++used;
    const CheckAnswer answer = Consume();
    ASSERT_EQ(answer.limits.at(0).verdict.remaining, kLimit.limit - used);
    if (answer.source == Source::kGrant) ++by_grant;
  }
  EXPECT_GT(by_grant, 100);
}

TEST_F(GrantTableTest, LittleOfTheGrantIsLeft_NextGrantIsAskedForInTime) {
  ConsumeUntilGranted();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(Consume().source, Source::kGrant) << i;
}

TEST_F(GrantTableTest, CostBeyondTheGrant_ReturnsTheGrantInTheSameCall) {
  const std::int64_t left = ConsumeUntilGranted().limits.at(0).verdict.remaining;
  const int submitted = store_.submitted;
  const CheckAnswer large = Consume(left);
  EXPECT_EQ(large.decision, Decision::kAllowed);
  EXPECT_EQ(large.source, Source::kStore);
  EXPECT_EQ(store_.submitted, submitted + 1);
  EXPECT_GT(Units("returned"), 0);
}

TEST_F(GrantTableTest, Lease_MayTakeWhatIsHeldHere) {
  const std::int64_t left = ConsumeUntilGranted().limits.at(0).verdict.remaining;
  CheckRequest request = RequestOf(Mode::kConsume, static_cast<std::uint64_t>(left));
  request.lease_ttl = seconds(1);
  const CheckAnswer leased = Send(std::move(request));
  EXPECT_EQ(leased.decision, Decision::kAllowed);
  EXPECT_TRUE(leased.lease);
  EXPECT_EQ(Consume().decision, Decision::kDenied);
  EXPECT_EQ(Counted(), kLimit.limit);
}

TEST_F(GrantTableTest, CheckThatMustAskTheStore_MayTakeWhatIsHeldHere) {
  const std::int64_t left = ConsumeUntilGranted().limits.at(0).verdict.remaining;
  CheckRequest request = RequestOf(Mode::kConsume, static_cast<std::uint64_t>(left));
  request.ask_store = true;
  const CheckAnswer answer = Send(std::move(request));
  EXPECT_EQ(answer.decision, Decision::kAllowed);
  EXPECT_EQ(answer.source, Source::kStore);
}

// The server that gets the check holds no grant. The store denies because another server's grant
// counts as taken.
TEST_F(GrantTableTest, LargeCost_MustWaitUntilGrantsOfOtherServersEnd) {
  const TokenBucket bucket{
      .rate = 100, .period = seconds(1), .burst = 1'000, .prefetch = kMaxPrefetch};
  SetRules(shop_, {RuleOf("all", {bucket})});
  ConsumeUntilGranted();
  Limiter other({.store = store_, .local = local_, .fallback = fallback_, .metrics = metrics_},
                {.store_timeout = seconds(60), .deny_cache = true});
  SetRules(other, {RuleOf("all", {bucket})});
  Call large(other);
  large.request = RequestOf(Mode::kConsume, 998);
  large.request.domain = "shop";
  large.Start();
  EXPECT_EQ(large.answer->value().decision, Decision::kDenied);
  EXPECT_GT(large.answer->value().retry_after, seconds(2)) << "a grant lasts 2.5 s";
}

TEST_F(GrantTableTest, UnitsReturnedTooLate_AreCountedAsEnded) {
  ConsumeUntilGranted();
  SetRules(shop_, {RuleOf("all", {kLimit})});
  clock_.Advance(kMaxPrefetch);
  shop_.grants().ReturnDue();
  EXPECT_EQ(Units("returned"), 0);
  EXPECT_GT(Units("ended"), 0);
}

TEST_F(GrantTableTest, NewRules_ReturnTheGrants) {
  ConsumeUntilGranted();
  SetRules(shop_, {RuleOf("all", {kLimit})});
  shop_.grants().ReturnDue();
  EXPECT_GT(Units("returned"), 0);
  const auto used = Units("granted") - Units("returned");
  const std::int64_t counted = Counted();
  EXPECT_LE(counted, 20);
  EXPECT_GE(static_cast<double>(counted), used);
  EXPECT_EQ(Consume().source, Source::kStore);
}

TEST_F(GrantTableTest, ClosedTable_ReturnsItsGrantsAndAsksForNone) {
  ConsumeUntilGranted();
  shop_.grants().Close();
  shop_.grants().ReturnDue();
  const double granted = Units("granted");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Consume().source, Source::kStore);
  EXPECT_EQ(Units("granted"), granted);
}

TEST_F(GrantTableTest, CounterIsReset_OldUnitsAreNotUsed) {
  ConsumeUntilGranted();
  shop_.grants().Forget("sluice:{shop/all/}:fixed_window:1m");
  EXPECT_EQ(Consume().source, Source::kStore);
}

// If the grant were used, it would be mistaken for the answer to a later request for a grant, and
// be used beyond its end.
TEST_F(GrantTableTest, CounterIsResetWhileAGrantIsOnItsWay_GrantIsNotUsed) {
  for (int i = 0; i < 3; ++i) Consume();
  store_.holds = true;
  Call first(shop_);
  Call second(shop_);
  for (Call* const call : {&first, &second}) {
    call->request = RequestOf(Mode::kConsume, 1);
    call->request.domain = "shop";
    if (call == &second) shop_.grants().Forget("sluice:{shop/all/}:fixed_window:1m");
    call->Start();
  }
  ASSERT_EQ(store_.held.size(), 2u);
  store_.holds = false;
  store_.held.front()->OnDecided();
  EXPECT_EQ(Units("granted"), 8);
  EXPECT_EQ(Units("returned"), 8);
  EXPECT_EQ(Consume().source, Source::kStore);
  store_.held.back()->OnDecided();
}

TEST_F(GrantTableTest, AnotherLimitHasNoPrefetch_NoGrantIsAskedFor) {
  FixedWindow other = kLimit;
  other.prefetch = {};
  SetRules(shop_, {RuleOf("all", {kLimit}), RuleOf("other", {other})});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Consume().source, Source::kStore);
  EXPECT_EQ(Units("granted"), 0);
}

TEST_F(GrantTableTest, TwoLimits_AreDecidedHereTogether) {
  FixedWindow small = kLimit;
  small.limit = 200;
  SetRules(shop_, {RuleOf("all", {kLimit}), RuleOf("small", {small})});
  std::int64_t allowed = 0;
  int here = 0;
  for (int i = 0; i < 500; ++i) {
    const CheckAnswer answer = Consume();
    allowed += answer.decision == Decision::kAllowed ? 1 : 0;
    here += answer.source == Source::kGrant ? 1 : 0;
  }
  EXPECT_EQ(allowed, small.limit);
  EXPECT_GT(here, 50);
}

// One thread returns a grant while the other finds no units of the second counter.
TEST_F(GrantTableTest, TwoThreads_ASecondLimitIsExhausted_NoUnitIsLost) {
  struct Check final : StoreCheck {
    void OnDecided() override {}
  };
  constexpr int kChecks = 200'000;
  const Limit first =
      FixedWindow{.limit = 1'000'000, .window = seconds(60), .prefetch = kMaxPrefetch};
  const Limit exhausted = FixedWindow{.limit = 1, .window = seconds(60), .prefetch = kMaxPrefetch};
  MemoryStore store(clock_, {});
  Clearings clearings;
  GrantTable table(store, clearings, metrics_);
  const auto consume = [&] {
    for (int i = 0; i < kChecks; ++i) {
      Check check;
      check.counters.push_back({.key = "first", .limit = &first});
      check.counters.push_back({.key = "shadow", .limit = &exhausted, .group = 1});
      if (table.Decides(check)) continue;
      table.Prepare(check);
      store.Submit(check);
      table.Learn(check);
    }
  };
  std::thread other(consume);
  consume();
  other.join();
  table.Close();
  table.ReturnDue();
  Check peek;
  peek.demand.mode = Mode::kPeek;
  peek.counters.push_back({.key = "first", .limit = &first});
  store.Submit(peek);
  EXPECT_EQ(peek.counters.front().verdict.remaining, 1'000'000 - 2 * kChecks);
}

TEST_F(GrantTableTest, StoreIsDown_GrantIsUsedUp_ThenThePolicyDecides) {
  ConsumeUntilGranted();
  store_.failing = StoreFailure::kUnreachable;
  EXPECT_EQ(Consume().source, Source::kGrant);
  EXPECT_EQ(Consume(900).source, Source::kFallback);
  EXPECT_EQ(Consume().source, Source::kGrant);  // units that were not returned are still here
  for (int i = 0; i < 20; ++i) Consume();
  EXPECT_EQ(Consume().source, Source::kFallback);
}

// If the second check were decided here, it would overtake the first, which waits for the store.
TEST_F(GrantTableTest, InOrderCheck_EarlierOneIsNotDecidedYet_GoesToTheStoreToo) {
  ConsumeUntilGranted();
  store_.holds = true;
  Call first(shop_);
  first.request = RequestOf(Mode::kConsume, 900);
  first.request.domain = "shop";
  first.request.in_order = true;
  first.Start();
  Call second(shop_);
  second.request = RequestOf(Mode::kConsume, 1);
  second.request.domain = "shop";
  second.request.in_order = true;
  second.Start();
  ASSERT_EQ(store_.held.size(), 2u);
  store_.holds = false;
  for (StoreCheck* const check : store_.held) check->OnDecided();
}

TEST_F(GrantTableTest, TableIsInUse_OnlyFromTheFirstGrantOn) {
  int begun = 0;
  shop_.grants().SetOnUse([&] { ++begun; });
  Consume();
  EXPECT_FALSE(shop_.grants().in_use());
  ConsumeUntilGranted();
  EXPECT_TRUE(shop_.grants().in_use());
  EXPECT_EQ(begun, 1);
}

TEST_F(GrantTableTest, RarelyCheckedCounter_IsNotPrefetched) {
  FixedWindow brief = kLimit;
  brief.prefetch = kMinPrefetch;
  SetRules(shop_, {RuleOf("all", {brief})});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(Consume().source, Source::kStore);
    const BootTime next = BootNow() + kMinPrefetch + milliseconds(2);
    while (BootNow() < next) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace sluice::test
