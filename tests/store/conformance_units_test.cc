// Checks whose units differ from counter to counter, on every store. In a cluster, the counters of
// a check are on several nodes.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/store/store_test.h"

namespace sluice::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

using Remaining = std::vector<std::int64_t>;

constexpr FixedWindow kRequests{.limit = 10, .window = minutes(1)};
constexpr TokenBucket kManyTokens{.rate = 1000, .period = minutes(1), .burst = 10'000};
constexpr SlidingWindow kMoney{.limit = 100, .window = minutes(1), .segments = 6};

const Limit kTens[] = {
    FixedWindow{.limit = 10, .window = seconds(60)},
    SlidingLog{.limit = 10, .window = seconds(60)},
    SlidingWindow{.limit = 10, .window = seconds(60), .segments = 6},
    TokenBucket{.rate = 1, .period = seconds(6), .burst = 10},
    LeakyBucket{.rate = 1, .period = seconds(6), .queue = 9, .delays = false},
    LeakyBucket{.rate = 1, .period = seconds(6), .queue = 9, .delays = true},
};

class UnitsTest : public StoreTest {
 protected:
  // Uses three new counters. In a cluster, each pair of the counters is on different nodes in at
  // least one of kRounds rounds.
  static constexpr int kRounds = 12;
  void StartRound(int round) {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      specs_[i].key = fmt::format("sluice:{{t/{}/{}}}:k", round, i);
    }
  }

  BlockingCheck& Run(const std::array<std::int64_t, 3>& units, Mode mode = Mode::kConsume) {
    for (std::size_t i = 0; i < specs_.size(); ++i) specs_[i].units = units[i];
    check_ = std::make_unique<BlockingCheck>(std::vector<CounterSpec>(specs_.begin(), specs_.end()),
                                             1, mode);
    check_->RunOn(*store_);
    EXPECT_FALSE(check_->failure());
    return *check_;
  }

  static Remaining RemainingOf(const StoreCheck& check) {
    Remaining remaining;
    for (const CounterCheck& counter : check.counters) {
      remaining.push_back(counter.verdict.remaining);
    }
    return remaining;
  }
  static std::vector<bool> AdmittedBy(const StoreCheck& check) {
    std::vector<bool> admitted;
    for (const CounterCheck& counter : check.counters) {
      admitted.push_back(counter.verdict.admitted);
    }
    return admitted;
  }
  Remaining Left() { return RemainingOf(Run({1, 1, 1}, Mode::kPeek)); }

  void Undo(const StoreCheck& check) {
    Io().RunOn(0, [&](net::Loop&) { store_->Undo(check); });
    Left();  // waits for the undo
  }

  std::array<CounterSpec, 3> specs_{{{.key = {}, .limit = kRequests},
                                     {.key = {}, .limit = kManyTokens},
                                     {.key = {}, .limit = kMoney}}};

 private:
  std::unique_ptr<BlockingCheck> check_;
};

INSTANTIATE_TEST_SUITE_P(Stores, UnitsTest, EveryStore(), NameOfStore);

TEST_P(UnitsTest, ThreeLimits_AreTakenTogetherOrNotAtAll) {
  for (int round = 0; round < kRounds; ++round) {
    StartRound(round);
    EXPECT_TRUE(Run({1, 5000, 0}).admitted);
    EXPECT_EQ(Left(), (Remaining{9, 5000, 100}));
    const StoreCheck& second = Run({2, 5000, 1});
    EXPECT_TRUE(second.admitted);
    EXPECT_EQ(RemainingOf(second), (Remaining{7, 0, 99}));
    for (int i = 0; i < 2; ++i) {
      const StoreCheck& denied = Run({1, 5000, 0});
      EXPECT_FALSE(denied.admitted);
      EXPECT_EQ(AdmittedBy(denied), (std::vector{true, false, true}));
      EXPECT_EQ(denied.counters[1].verdict.retry_after, minutes(5));
      EXPECT_EQ(Left(), (Remaining{7, 0, 99}))
          << "the units that the other limits took are given back";
    }
    EXPECT_TRUE(Run({7, 0, 99}).admitted) << "the bucket is empty, but not in debt";
    EXPECT_EQ(Left(), (Remaining{0, 0, 0}));
    EXPECT_TRUE(Run({0, 0, 0}).admitted);
    EXPECT_EQ(AdmittedBy(Run({0, 0, 1})), (std::vector{true, true, false}));
  }
}

TEST_P(UnitsTest, Peek_DecidesAsConsume_TakesNothing) {
  StartRound(0);
  Run({3, 9000, 0});
  for (const auto& units : {std::array<std::int64_t, 3>{7, 1000, 100},
                            {8, 1000, 0},
                            {0, 1001, 0},
                            {1, 0, 101},
                            {7, 1001, 101},
                            {0, 0, 0}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", units[0], units[1], units[2]));
    const auto expected = AdmittedBy(Run(units, Mode::kPeek));
    EXPECT_EQ(Left(), (Remaining{7, 1000, 100}));
    const StoreCheck& taken = Run(units);
    EXPECT_EQ(AdmittedBy(taken), expected);
    if (taken.admitted) Undo(taken);
    EXPECT_EQ(Left(), (Remaining{7, 1000, 100}));
  }
}

TEST_P(UnitsTest, ChargeAndRefund_ChangeEachCounterByItsUnits) {
  for (int round = 0; round < kRounds; ++round) {
    StartRound(round);
    EXPECT_TRUE(Run({1, 4000, 0}, Mode::kCharge).admitted);
    EXPECT_EQ(Left(), (Remaining{9, 6000, 100}));
    const StoreCheck& beyond = Run({2, 10'000, 0}, Mode::kCharge);
    EXPECT_FALSE(beyond.admitted);
    EXPECT_EQ(AdmittedBy(beyond), (std::vector{true, false, true}));
    EXPECT_EQ(Left(), (Remaining{7, 0, 100}));
    EXPECT_FALSE(Run({1, 0, 0}).admitted) << "the bucket is in debt";
    EXPECT_EQ(Left(), (Remaining{7, 0, 100}));
    Run({0, 4500, 5}, Mode::kRefund);
    EXPECT_EQ(Left(), (Remaining{7, 500, 100}));
    Run({2, 0, 0}, Mode::kRefund);
    EXPECT_EQ(Left(), (Remaining{9, 500, 100}));
    const StoreCheck& dropped = Run({1, kMaxCost, 1}, Mode::kCharge);
    EXPECT_EQ(dropped.counters[0].verdict.dropped, 0);
    EXPECT_GT(dropped.counters[1].verdict.dropped, 0);
    EXPECT_EQ(Left(), (Remaining{8, 0, 99}));
  }
}

TEST_P(UnitsTest, Undo_GivesEachCounterItsUnitsBack) {
  for (int round = 0; round < kRounds; ++round) {
    StartRound(round);
    Run({1, 100, 7});
    for (const auto& units : {std::array<std::int64_t, 3>{2, 5000, 0}, {0, 9900, 1}, {9, 0, 93}}) {
      const StoreCheck& taken = Run(units);
      ASSERT_TRUE(taken.admitted);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(taken.counters[i].charged, units[i] > 0);
      Undo(taken);
      EXPECT_EQ(Left(), (Remaining{9, 9900, 93}));
    }
  }
}

// The check asks for no units of a counter that other checks have filled. The counter denies only
// if it is past its limit.
TEST_P(UnitsTest, CheckOfNoUnitsOfACounter_IsDeniedOnlyWhileTheCounterIsPastItsLimit) {
  int round = 0;
  for (const Limit& limit : kTens) {
    SCOPED_TRACE(CounterTag(limit));
    StartRound(++round);
    specs_[1].limit = limit;
    const auto ask_none = [&](Mode mode = Mode::kConsume) {
      BlockingCheck check({{specs_[0].key, kRequests}, {specs_[1].key, limit, 0, 0}}, 1, mode);
      check.demand.max_wait = Duration(0);
      check.RunOn(*store_);
      EXPECT_EQ(check.counters[1].verdict.wait, Duration(0));
      EXPECT_FALSE(check.counters[1].charged);
      return check.counters[1].verdict;
    };
    const auto charge = [&](std::int64_t units) {
      BlockingCheck({{specs_[1].key, limit}}, units, Mode::kCharge).RunOn(*store_);
    };
    charge(10);
    EXPECT_TRUE(ask_none().admitted) << "at its limit, but not past it";
    EXPECT_EQ(ask_none().remaining, 0);
    EXPECT_EQ(Left()[0], 8);
    charge(1);
    EXPECT_FALSE(ask_none(Mode::kPeek).admitted);
    const Verdict denied = ask_none();
    EXPECT_FALSE(denied.admitted);
    EXPECT_EQ(Left()[0], 8) << "all or nothing";
    clock_.Advance(denied.retry_after - Duration(1));
    EXPECT_FALSE(ask_none(Mode::kPeek).admitted);
    clock_.Advance(Duration(1));
    EXPECT_TRUE(ask_none().admitted);
  }
}

TEST_P(UnitsTest, ShadowRule_IsChargedByItsOwnUnits) {
  for (int round = 0; round < kRounds; ++round) {
    StartRound(round);
    specs_[1].group = specs_[2].group = 1;
    EXPECT_TRUE(Run({1, 6000, 0}).admitted);
    EXPECT_EQ(Left(), (Remaining{9, 4000, 100}));
    EXPECT_TRUE(Run({0, 6000, 3}).admitted);
    EXPECT_EQ(Left(), (Remaining{9, 4000, 100})) << "one limit denies, so the rule is not charged";
    EXPECT_FALSE(Run({10, 1, 3}).admitted);
    EXPECT_EQ(Left(), (Remaining{9, 4000, 100}));
    EXPECT_TRUE(Run({0, 4000, 3}).admitted);
    EXPECT_EQ(Left(), (Remaining{9, 0, 97}));
  }
}

// The checks are sent together, in one pack if the store has packs. Equal checks are coalesced.
TEST_P(UnitsTest, ChecksOfEqualAndDifferentUnitsAtOnce_AreEachCounted) {
  StartRound(0);
  static const Limit requests = kRequests;
  static const Limit tokens = FixedWindow{.limit = 40, .window = minutes(1)};
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (int i = 0; i < 12; ++i) {
    checks.push_back(std::make_unique<BlockingCheck>(
        std::vector<CounterSpec>{{specs_[0].key, requests, 0, i % 4 == 3 ? 0 : 1},
                                 {specs_[0].key + "t", tokens, 0, i % 2 == 0 ? 5 : 7}}));
    // Checks are equal only if they point to the same limits.
    checks.back()->counters[0].limit = &requests;
    checks.back()->counters[1].limit = &tokens;
  }
  Io().RunOn(0, [&](net::Loop&) {
    for (const auto& check : checks) store_->Submit(*check);
  });
  std::int64_t counted = 0;
  std::int64_t taken = 0;
  std::int64_t least_denied = kMaxCost;
  for (const auto& check : checks) {
    check->Wait();
    ASSERT_FALSE(check->failure());
    const std::int64_t units = check->counters[1].units;
    if (check->admitted) {
      counted += check->counters[0].units;
      taken += units;
    } else {
      least_denied = std::min(least_denied, units);
    }
  }
  EXPECT_LE(taken, 40);
  EXPECT_GT(taken + least_denied, 40);
  BlockingCheck peek({{specs_[0].key, requests}, {specs_[0].key + "t", tokens}}, 1, Mode::kPeek);
  peek.RunOn(*store_);
  EXPECT_EQ(RemainingOf(peek), (Remaining{10 - counted, 40 - taken}));
}

TEST_P(UnitsTest, SlotsOfSeveralLimits_EachTakesItsOwnUnits_ZeroUnitsNeedNoLease) {
  const Limit slots = Concurrency{.limit = 5, .ttl = minutes(1)};
  for (int round = 0; round < kRounds; ++round) {
    StartRound(round);
    for (CounterSpec& spec : specs_) spec.limit = slots;
    for (std::size_t i = 0; i < 3; ++i) specs_[i].units = static_cast<std::int64_t>(2 * i);
    BlockingCheck held(std::vector<CounterSpec>(specs_.begin(), specs_.end()));
    held.lease = MakeLease(1, minutes(1));
    EXPECT_TRUE(held.RunOn(*store_).admitted);
    EXPECT_EQ(RemainingOf(held), (Remaining{5, 3, 1}));
    EXPECT_TRUE(Run({0, 0, 0}).admitted);
    EXPECT_EQ(Left(), (Remaining{5, 3, 1}));
    BlockingCheck denied(std::vector<CounterSpec>{
        {specs_[0].key, slots, 0, 1}, {specs_[1].key, slots, 0, 0}, {specs_[2].key, slots, 0, 2}});
    denied.lease = MakeLease(2, minutes(1));
    EXPECT_FALSE(denied.RunOn(*store_).admitted);
    EXPECT_EQ(Left(), (Remaining{5, 3, 1}));
    BlockingCheck release({specs_[1], specs_[2]}, 1, Mode::kSettle);
    release.lease = held.lease;
    EXPECT_TRUE(release.RunOn(*store_).admitted);
    EXPECT_EQ(Left(), (Remaining{5, 5, 5}));
  }
}

}  // namespace
}  // namespace sluice::test
