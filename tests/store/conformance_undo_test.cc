// Undoing a check. If it was the latest check of a counter, the counter is as before the check.
// Otherwise, the counter never admits more than without the check.
#include <fmt/format.h>

#include "tests/store/store_test.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const Limit kLimits[] = {
    FixedWindow{.limit = 10, .window = seconds(60)},
    FixedWindow{.limit = 10, .window = seconds(60), .align = FixedWindow::Align::kClock},
    SlidingLog{.limit = 10, .window = seconds(60)},
    SlidingWindow{.limit = 10, .window = seconds(60), .segments = 6},
    TokenBucket{.rate = 1, .period = seconds(6), .burst = 10},
    TokenBucket{.rate = 1, .period = seconds(6), .burst = 10, .borrows = true},
    LeakyBucket{.rate = 1, .period = seconds(6), .queue = 9, .delays = false},
    LeakyBucket{.rate = 1, .period = seconds(6), .queue = 9, .delays = true},
    WarmingBucket{.rate = 1, .period = milliseconds(100), .warmup = seconds(60)},
    Concurrency{.limit = 10, .ttl = seconds(60)},
};

class UndoTest : public StoreTest {
 protected:
  struct Taken {
    std::unique_ptr<BlockingCheck> check;
    bool admitted = false;
  };

  Taken Take(const std::string& key, const Limit& limit, std::int64_t cost) {
    auto check = std::make_unique<BlockingCheck>(std::vector<CounterSpec>{{key, limit}}, cost);
    check->lease = MakeLease(++leases_, seconds(60));
    check->RunOn(*store_);
    const bool admitted = check->admitted;
    return {std::move(check), admitted};
  }

  void Undo(const StoreCheck& check) {
    Io().loop(0).Post([this, &check] { store_->Undo(check); });
    Look("sluice:{t/another}:k",
         FixedWindow{.limit = 1, .window = seconds(1)});  // waits for the undo
  }

  Verdict Look(const std::string& key, const Limit& limit) {
    BlockingCheck check({{key, limit}}, 1, Mode::kPeek);
    return check.RunOn(*store_).counters[0].verdict;
  }

  // Permits of a warming bucket are not whole numbers, so its verdicts may differ by rounding.
  void ExpectEqual(const Limit& limit, const Verdict& left, const Verdict& right) {
    const bool warms = std::holds_alternative<WarmingBucket>(limit);
    EXPECT_EQ(left.admitted, right.admitted);
    EXPECT_NEAR(left.remaining, right.remaining, warms ? 1 : 0);
    EXPECT_NEAR(left.reset_after.count(), right.reset_after.count(), warms ? 2 : 0);
    EXPECT_NEAR(left.retry_after.count(), right.retry_after.count(), warms ? 2 : 0);
  }

  std::uint8_t leases_ = 0;
};

TEST_P(UndoTest, LatestCheckIsUndone_CounterIsAsBefore) {
  int n = 0;
  for (const Limit& limit : kLimits) {
    for (const Duration later :
         {Duration(0), Duration(1), Duration(milliseconds(700)), Duration(seconds(13)),
          Duration(seconds(59)), Duration(minutes(2))}) {
      SCOPED_TRACE(fmt::format("{} after {} us", CounterTag(limit), later.count()));
      const std::string with = fmt::format("sluice:{{t/r/{}}}:k", ++n);
      const std::string without = fmt::format("sluice:{{t/r/{}}}:k", ++n);
      for (const std::string& key : {with, without}) Take(key, limit, 3);
      clock_.Advance(seconds(20));
      const Taken undone = Take(with, limit, 2);
      clock_.Advance(later);
      ASSERT_TRUE(undone.admitted);
      Undo(*undone.check);
      for (const Duration then : {Duration(0), Duration(1), Duration(seconds(5))}) {
        clock_.Advance(then);
        ExpectEqual(limit, Look(with, limit), Look(without, limit));
      }
    }
  }
}

// For example, undoing a charge of an earlier window must not let a later window admit more.
TEST_P(UndoTest, EarlierCheckUndone_CounterNeverAdmitsMoreThanWithoutIt) {
  int n = 0;
  for (const Limit& limit : kLimits) {
    for (const Duration later :
         {Duration(milliseconds(1)), Duration(seconds(7)), Duration(seconds(31)),
          Duration(seconds(61)), Duration(minutes(3))}) {
      SCOPED_TRACE(fmt::format("{} after {} us", CounterTag(limit), later.count()));
      const std::string with = fmt::format("sluice:{{t/s/{}}}:k", ++n);
      const std::string without = fmt::format("sluice:{{t/s/{}}}:k", ++n);
      const Taken undone = Take(with, limit, 4);
      ASSERT_TRUE(undone.admitted);
      clock_.Advance(later);
      // The check that is undone later may leave too few units for this check. Then the counters
      // cannot be compared.
      const bool taken = Take(with, limit, 3).admitted;
      ASSERT_TRUE(Take(without, limit, 3).admitted);
      clock_.Advance(milliseconds(300));
      Undo(*undone.check);
      if (!taken) continue;
      const std::int64_t remaining = Look(with, limit).remaining;
      EXPECT_LE(remaining, Look(without, limit).remaining);
      const bool exact = std::holds_alternative<FixedWindow>(limit) ||
                         std::holds_alternative<SlidingLog>(limit) ||
                         std::holds_alternative<SlidingWindow>(limit) ||
                         std::holds_alternative<Concurrency>(limit);
      EXPECT_TRUE(!exact || remaining == Look(without, limit).remaining);
    }
  }
}

TEST_P(UndoTest, ShadowRuleDenied_OnlyTheChargedCounterIsUndone) {
  const Limit ten = FixedWindow{.limit = 10, .window = seconds(60)};
  const Limit one = FixedWindow{.limit = 1, .window = seconds(60)};
  BlockingCheck granted({{"sluice:{t/a}:k", ten}, {"sluice:{t/b}:k", one, 1}});
  granted.RunOn(*store_);
  BlockingCheck shadow_denies({{"sluice:{t/a}:k", ten}, {"sluice:{t/b}:k", one, 1}});
  shadow_denies.RunOn(*store_);
  EXPECT_TRUE(shadow_denies.counters[0].charged);
  EXPECT_FALSE(shadow_denies.counters[1].charged);
  Undo(shadow_denies);
  EXPECT_EQ(Look("sluice:{t/a}:k", ten).remaining, 9);
  EXPECT_EQ(Look("sluice:{t/b}:k", one).remaining, 0);
  Undo(granted);
  EXPECT_EQ(Look("sluice:{t/a}:k", ten).remaining, 10);
  EXPECT_EQ(Look("sluice:{t/b}:k", one).remaining, 1);
}

// Undoing an entry in the middle of a log does not change the times of other entries.
TEST_P(UndoTest, SlidingLog_EntryOfTheCheckIsRemovedAndOthersStay) {
  const Limit limit = SlidingLog{.limit = 3, .window = seconds(60)};
  const std::string key = "sluice:{t/l}:k";
  Take(key, limit, 1);
  clock_.Advance(seconds(10));
  const Taken undone = Take(key, limit, 1);
  clock_.Advance(seconds(10));
  Take(key, limit, 1);
  Undo(*undone.check);
  EXPECT_EQ(Look(key, limit).remaining, 1);
  Take(key, limit, 1);
  EXPECT_EQ(Look(key, limit).retry_after, seconds(40));
  clock_.Advance(seconds(40));
  EXPECT_EQ(Look(key, limit).remaining, 1);
  clock_.Advance(seconds(10));
  EXPECT_EQ(Look(key, limit).remaining, 1) << "the undone entry is gone, so it cannot leave now";
  clock_.Advance(seconds(10));
  EXPECT_EQ(Look(key, limit).remaining, 3);
}

INSTANTIATE_TEST_SUITE_P(Stores, UndoTest, EveryStore(), NameOfStore);

}  // namespace
}  // namespace sluice::test
