// Limits that follow the load, tested through the limiter: outcomes, metrics, and rules that are
// replaced while slots are held.
#include <map>

#include "limiter/lease_name.h"
#include "tests/limiter/fixture.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Adaptation kAdapts{.on = true, .min = 4, .latency = seconds(1), .share = 90};

class AdaptiveLeaseTest : public LimiterTest {
 protected:
  AdaptiveLeaseTest() { Use(kFifty); }

  static constexpr Concurrency kFifty{.limit = 50, .ttl = seconds(30), .adapt = kAdapts};
  static Concurrency Between(std::int64_t min, std::int64_t limit) {
    Concurrency slots = kFifty;
    slots.limit = limit;
    slots.adapt.min = min;
    return slots;
  }

  static std::shared_ptr<const RuleIndex> IndexOf(const Concurrency& slots) {
    Rule rule = RuleOf("r", {slots});
    rule.on_store_failure = OnStoreFailure::kLocal;
    Domain domain;
    domain.name = "shop";
    domain.rules = {rule};
    return RuleIndex::Build({domain}, {}).value();
  }
  void Use(const Concurrency& slots) { limiter_.SetRules(IndexOf(slots)); }

  Verdict Peek() { return Ask(RequestOf(Mode::kPeek)).limits.at(0).verdict; }
  std::int64_t LimitNow() { return Peek().limit; }
  std::int64_t HeldNow() { return LimitNow() - Peek().remaining; }
  // Takes slots. Returns the id of the lease.
  std::string Take(std::int64_t slots) {
    const CheckAnswer answer = Check({}, static_cast<std::uint64_t>(slots));
    EXPECT_EQ(answer.decision, Decision::kAllowed);
    EXPECT_LE(HeldNow(), LimitNow());
    return answer.lease ? answer.lease->id : "";
  }
  void End(const std::string& id, const LeaseUsage& usage = {}) {
    EXPECT_TRUE(CallLease(limiter_, LeaseCall::Action::kRelease, id, usage));
  }
  // Holds slots for a time.
  void Hold(std::int64_t slots, Duration time, const LeaseUsage& usage = {}) {
    const std::string id = Take(slots);
    clock_.Advance(time);
    End(id, usage);
  }
  void Rise() {
    for (int i = 0; i < 1000 && LimitNow() < 20; ++i) Hold(LimitNow(), milliseconds(500));
    ASSERT_GE(LimitNow(), 20);
  }
  // Whether the limit falls if slots are held for the time `held` and then released with `usage`.
  bool Lowers(const LeaseUsage& usage, Duration held = milliseconds(100)) {
    Rise();
    Hold(LimitNow(), held, usage);
    return LimitNow() < 20;
  }

  double Holds(const std::string& result) const {
    return Value("sluice_adaptive_holds_total{domain=\"shop\",result=\"" + result +
                 "\",rule=\"r\"}");
  }
  double Moved(const std::string& direction) const {
    return Value("sluice_adaptive_moved_slots_total{direction=\"" + direction +
                 "\",domain=\"shop\",rule=\"r\"}");
  }
};

TEST_F(AdaptiveLeaseTest, Release_SlowOrOverloaded_LowersTheLimit) {
  EXPECT_FALSE(Lowers({}));
  EXPECT_TRUE(Lowers({}, seconds(2)));
  EXPECT_TRUE(Lowers({.outcome = HoldOutcome::kOverload}));
  EXPECT_TRUE(Lowers({.duration = seconds(2)}));
  EXPECT_FALSE(Lowers({.outcome = HoldOutcome::kIgnore}, seconds(2)));
  EXPECT_FALSE(Lowers({.duration = seconds(1)}, seconds(2)));
}

TEST_F(AdaptiveLeaseTest, RenewedLease_HoldTimeIncludesTheTimeBeforeTheRenewal) {
  Rise();
  const std::string id = Take(10);
  clock_.Advance(seconds(25));
  ASSERT_TRUE(Renew(id));
  clock_.Advance(milliseconds(100));
  End(id);
  EXPECT_LT(LimitNow(), 20);
}

TEST_F(AdaptiveLeaseTest, StoreFails_ServerUsesItsShareOfTheLastLimit) {
  Rise();
  const std::int64_t limit = LimitNow();
  fallback_.SetShare(Share::OfServer(2, 0));
  store_.failing = StoreFailure::kUnreachable;
  EXPECT_EQ(LimitNow(), (limit + 1) / 2);
}

TEST_F(AdaptiveLeaseTest, StoreFails_LastLimitIsBroughtWithinTheBoundsOfTheRule) {
  Rise();
  store_.failing = StoreFailure::kUnreachable;
  Use(Between(4, 10));
  EXPECT_EQ(LimitNow(), 10);
  Take(10);
  EXPECT_EQ(Check().decision, Decision::kDenied);
  Use(Between(30, 50));
  EXPECT_EQ(LimitNow(), 30);
  Use(kFifty);
  EXPECT_EQ(LimitNow(), 20);
}

TEST_F(AdaptiveLeaseTest, LeaseId_HasTheTimeWhenTheLeaseWasTaken_AndIsParsed) {
  const std::string id = Take(1);
  const auto name = LeaseName::Parse(id);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->taken, clock_.Now());
  EXPECT_EQ(name->ToText(), id);
}

TEST_F(AdaptiveLeaseTest, HoldsOfARule_AreCountedByResult) {
  Hold(1, milliseconds(100));
  EXPECT_EQ(Holds("in_time"), 1);
  EXPECT_EQ(Holds("too_slow"), 0) << "the series must exist even if no hold was too slow";
  Hold(1, seconds(2));
  Hold(1, seconds(2), {.outcome = HoldOutcome::kOverload});
  Hold(1, seconds(2), {.duration = seconds(1)});
  Hold(1, seconds(2), {.outcome = HoldOutcome::kIgnore});
  const std::map<std::string, double> expected{
      {"in_time", 2}, {"too_slow", 1}, {"overload", 1}, {"ignored", 1}};
  for (const auto& [result, count] : expected) EXPECT_EQ(Holds(result), count) << result;
}

TEST_F(AdaptiveLeaseTest, MovesOfTheLimit_AreCountedInSlots) {
  Rise();
  const std::int64_t high = LimitNow();
  EXPECT_EQ(Moved("up"), high - kAdapts.min);
  EXPECT_EQ(Moved("down"), 0);
  Hold(high, seconds(2));
  EXPECT_LT(LimitNow(), high);
  EXPECT_EQ(Moved("down"), high - LimitNow());
  EXPECT_EQ(Moved("up"), high - kAdapts.min);
}

TEST_F(AdaptiveLeaseTest, HoldsOfAPlainOrUnknownRule_AreNotCounted) {
  const std::string id = Take(1);
  SetRules({RuleOf("r", {Concurrency{.limit = 50, .ttl = seconds(30)}})});
  Hold(1, milliseconds(100));
  End(id);
  EXPECT_EQ(Holds("in_time"), -1);
  SetRules({RuleOf("other", {kFifty})});
  std::string forged = id;
  forged.replace(forged.find("{shop/r"), 7, "{shop/q");
  End(forged);
  EXPECT_EQ(metrics_.Render().find("sluice_adaptive_holds_total"), std::string::npos);
}

// The rules change while slots are held. Whatever the new rules are, a release frees the slots.

TEST_F(AdaptiveLeaseTest, LimitIsLowered_NoMoreSlotsAreTaken_LimitFallsFromItsNewValue) {
  Rise();
  const std::string id = Take(15);
  Use(Between(4, 10));
  EXPECT_EQ(LimitNow(), 10);
  EXPECT_EQ(Check().decision, Decision::kDenied) << "15 are held";
  clock_.Advance(milliseconds(500));
  End(id);
  EXPECT_EQ(HeldNow(), 0);
  EXPECT_EQ(LimitNow(), 10);
  Hold(10, seconds(2));
  EXPECT_LT(LimitNow(), 10) << "the limit falls from 10, not from 20";
}

TEST_F(AdaptiveLeaseTest, LimitIsLowered_EarlierFastHoldDoesNotRaiseItAgain) {
  Rise();
  const std::string id = Take(LimitNow());
  Use(Between(4, 10));
  clock_.Advance(milliseconds(500));
  End(id);
  EXPECT_EQ(LimitNow(), 10);
  Hold(10, milliseconds(500));
  EXPECT_EQ(LimitNow(), 10);
  Use(kFifty);
  EXPECT_EQ(LimitNow(), 10) << "the limit does not return to its old value";
}

TEST_F(AdaptiveLeaseTest, MinIsRaised_LimitIsTheNewMinAndRisesFromIt) {
  Rise();
  const std::string id = Take(20);
  Use(Between(30, 50));
  EXPECT_EQ(LimitNow(), 30);
  clock_.Advance(seconds(2));
  End(id);
  EXPECT_EQ(LimitNow(), 30) << "not below the minimum";
  EXPECT_EQ(HeldNow(), 0);
  for (int i = 0; i < 2; ++i) Hold(30, milliseconds(500));
  EXPECT_GT(LimitNow(), 30) << "the limit rises from 30, not from 20";
}

TEST_F(AdaptiveLeaseTest, LimitIsRaisedAndMinLowered_NothingChangesImmediately) {
  Use(Between(4, 20));
  Rise();
  const std::string id = Take(20);
  Use(Between(1, 50));
  EXPECT_EQ(LimitNow(), 20);
  EXPECT_EQ(Check().decision, Decision::kDenied);
  clock_.Advance(milliseconds(500));
  End(id);
  EXPECT_EQ(LimitNow(), 20) << "the rule that granted the slots allows at most 20";
  for (int i = 0; i < 5; ++i) Hold(LimitNow(), milliseconds(500));
  EXPECT_GT(LimitNow(), 20);
  for (int i = 0; i < 1000 && LimitNow() > 1; ++i) Hold(LimitNow(), seconds(2));
  EXPECT_EQ(LimitNow(), 1);
}

TEST_F(AdaptiveLeaseTest, AdaptIsRemoved_ReleaseFreesTheSlots_LimitIsFixed) {
  Rise();
  const std::string id = Take(20);
  Use({.limit = 50, .ttl = seconds(30)});
  EXPECT_EQ(LimitNow(), 50);
  EXPECT_EQ(HeldNow(), 20);
  const std::string other = Take(30);
  EXPECT_EQ(Check().decision, Decision::kDenied);
  clock_.Advance(seconds(2));
  End(id);
  EXPECT_EQ(LimitNow(), 50);
  EXPECT_EQ(HeldNow(), 30);
  End(other);
  EXPECT_EQ(HeldNow(), 0);
  Use(kFifty);
  EXPECT_LT(LimitNow(), 20) << "a lease is judged by the rule that granted it";
}

TEST_F(AdaptiveLeaseTest, AdaptIsAdded_ReleaseFreesTheSlots_LimitDoesNotMove) {
  Use({.limit = 50, .ttl = seconds(30)});
  const std::string id = Take(30);
  Use(kFifty);
  EXPECT_EQ(LimitNow(), 4) << "a new limit starts at its minimum";
  EXPECT_EQ(Check().decision, Decision::kDenied);
  clock_.Advance(milliseconds(500));
  End(id);
  EXPECT_EQ(HeldNow(), 0);
  EXPECT_EQ(LimitNow(), 4);
  Rise();
}

TEST_F(AdaptiveLeaseTest, LatencyIsChanged_LeaseIsJudgedByTheRuleThatGrantedIt) {
  Concurrency patient = kFifty;
  patient.adapt.latency = seconds(10);
  Rise();
  const std::string id = Take(20);
  Use(patient);
  clock_.Advance(seconds(2));
  End(id);
  const std::int64_t lower = LimitNow();
  EXPECT_LT(lower, 20);
  Hold(lower, seconds(2));
  EXPECT_GE(LimitNow(), lower) << "with the new latency, this hold is not too slow";
}

TEST_F(AdaptiveLeaseTest, ServersWithDifferentRules_EachCountsAllSlotsAgainstItsOwnLimit) {
  MetricsRegistry metrics;
  FragileStore local(clock_);
  Fallback fallback(clock_);
  Limiter newer({.store = store_, .local = local, .fallback = fallback, .metrics = metrics}, {});
  newer.SetRules(IndexOf(Between(4, 10)));
  Rise();
  const std::string id = Take(12);

  Call call(newer);
  const auto ask = [&](Mode mode) -> const CheckAnswer& {
    call.request = RequestOf(mode);
    call.request.domain = "shop";
    call.Start();
    return call.answer->value();
  };
  EXPECT_EQ(ask(Mode::kPeek).limits.at(0).verdict.limit, 10);
  EXPECT_EQ(ask(Mode::kConsume).decision, Decision::kDenied) << "12 are held";
  EXPECT_EQ(LimitNow(), 20);
  EXPECT_TRUE(Release(newer, id));
  EXPECT_EQ(HeldNow(), 0);
  const CheckAnswer taken = ask(Mode::kConsume);
  EXPECT_EQ(taken.decision, Decision::kAllowed);
  EXPECT_EQ(LimitNow(), 10) << "the newer rule bounds the learned limit";
  EXPECT_EQ(HeldNow(), 1);
  End(taken.lease->id);
  EXPECT_EQ(HeldNow(), 0);
}

}  // namespace
}  // namespace sluice::test
