// Tests how many of the units that a server admitted without the store still count until the store
// is charged with these units.
#include "limiter/pending_charges.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::string_view kBucket = "sluice:{shop/r/}:token_bucket:1s:warmup";
constexpr Time kLost(hours(1000));

// All units count the same, regardless of how cold the bucket was when they were admitted.
TEST(PendingCharges, UnitsOfAWarmingBucket_AllCountUntilRefilled) {
  struct Row {
    WarmingBucket limit;
    std::int64_t cost;
    Duration interval;  // refills a unit
  };
  const Row rows[] = {
      {{.rate = 10, .period = seconds(1), .warmup = minutes(1)}, 20, milliseconds(100)},
      {{.rate = 10, .period = seconds(1), .warmup = hours(24)}, 100'000, milliseconds(100)},
      {{.rate = 1, .period = hours(24), .warmup = milliseconds(1)}, 10, hours(24)},
      {{.rate = 1'000'000, .period = seconds(1), .warmup = hours(24)},
       kMaxCost / 10'000'000,
       Duration(1)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.cost);
    const Limit limit = row.limit;
    const Share share = Share::Whole();
    const WarmingBucket::State warm{.stored = 0, .next_free = kLost + hours(1), .last = kLost};
    const SeenState state{.snapshot = warm, .reset_at = kLost + hours(5), .at = kLost};
    for (const std::optional<SeenState>& seen : {std::optional<SeenState>(), {state}}) {
      PendingCharges charges;
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(charges.Add({.key = kBucket, .limit = limit, .share = share, .seen = seen},
                                row.cost, kLost));
      }
      EXPECT_EQ(charges.Find(kBucket, kLost), 2 * row.cost);
      auto taken = charges.Take(10, kLost);
      ASSERT_EQ(taken.size(), 1u);
      EXPECT_EQ(taken[0].units, 2 * row.cost);
      charges.PutBack(std::move(taken[0]), kLost);
      EXPECT_EQ(charges.Find(kBucket, kLost + 3 * row.interval), 2 * row.cost - 3);
      EXPECT_TRUE(charges.Take(10, kLost + 2 * row.cost * row.interval).empty());
    }
  }
}

// The pending charges of a server that has the share `share`. Add uses the same limit for all keys.
class Counter {
 public:
  explicit Counter(Limit limit, const Share& share = Share::Whole())
      : limit_(std::move(limit)), share_(share) {}

  bool Add(std::int64_t cost, Time now, std::string_view key = "k") {
    const auto added =
        charges.Add({.key = key, .limit = limit_, .share = share_, .seen = seen}, cost, now);
    return added.has_value();
  }

  PendingCharges charges;
  std::optional<SeenState> seen;

 private:
  const Limit limit_;
  const Share share_;
};

// The units count until the store's open window ends. The window's count does not matter.
TEST(PendingCharges, UnitsOfAWindow_CountUntilItEnds) {
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  const FixedWindow::Snapshot state{.start = kLost - seconds(50), .count = 40, .last = kLost};
  counter.seen = {.snapshot = state, .reset_at = kLost + seconds(10), .at = kLost};
  ASSERT_TRUE(counter.Add(5, kLost));
  EXPECT_EQ(counter.charges.Find("k", kLost + seconds(10) - Duration(1)), 5);
  EXPECT_EQ(counter.charges.Find("k", kLost + seconds(10)), 0);
  ASSERT_TRUE(counter.Add(3, kLost + seconds(20)));
  EXPECT_EQ(counter.charges.Find("k", kLost + seconds(20)), 3);
}

TEST(PendingCharges, UnitsOfABucket_AreRefilledAtThisServersShareOfTheRate) {
  const TokenBucket tokens{.rate = 10, .period = seconds(1), .burst = 100, .starts_empty = true};
  const WarmingBucket warming{.rate = 10, .period = seconds(1), .warmup = minutes(1)};
  for (const Limit& limit : {Limit(tokens), Limit(warming)}) {
    Counter counter(limit, Share::OfServer(3, 0));
    ASSERT_TRUE(counter.Add(30, kLost));
    EXPECT_EQ(counter.charges.Find("k", kLost + seconds(3)), 20);
    EXPECT_EQ(counter.charges.Find("k", kLost + seconds(9)), 0);
    ASSERT_TRUE(counter.Add(7, kLost + minutes(1)));
    EXPECT_EQ(counter.charges.Find("k", kLost + minutes(1)), 7);
  }
}

// An override has a smaller limit on the same bucket. The override's units are added first.
TEST(PendingCharges, UnitsOfTwoLimitsOfACounter_AreAdded_ChargedWithTheLargerLimit) {
  TokenBucket large{.rate = 1, .period = hours(1), .burst = 1000};
  TokenBucket small = large;
  small.burst = 5;
  Counter small_counter{Limit(small)};
  ASSERT_TRUE(small_counter.Add(5, kLost));
  const Limit limit = large;
  const Share share = Share::Whole();
  const std::optional<SeenState> seen;
  PendingCharges& charges = small_counter.charges;
  ASSERT_TRUE(charges.Add({.key = "k", .limit = limit, .share = share, .seen = seen}, 900, kLost));
  EXPECT_EQ(charges.Find("k", kLost), 905);
  ASSERT_TRUE(small_counter.Add(5, kLost));
  const auto taken = charges.Take(1, kLost);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].units, 910);
  EXPECT_EQ(taken[0].limit, limit);
}

// A rule and its override, or a reloaded rule. The store, too, refills the time since the last
// check at the rate of the limit that asks.
TEST(PendingCharges, TwoRatesOfACounter_TheLatestRateRefillsTheUnits) {
  const auto expect_left = [](const Limit& first, const Limit& then, std::int64_t left) {
    const Share share = Share::OfServer(2, 0);
    const std::optional<SeenState> seen;
    PendingCharges charges;
    ASSERT_TRUE(charges.Add({.key = "k", .limit = first, .share = share, .seen = seen}, 40, kLost));
    const PendingCharges::Subject later{.key = "k", .limit = then, .share = share, .seen = seen};
    ASSERT_TRUE(charges.Add(later, 10, kLost + seconds(1)));
    EXPECT_EQ(charges.Find("k", kLost + seconds(3)), left);
    const auto taken = charges.Take(1, kLost + seconds(3));
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].limit, then);
  };
  const TokenBucket fast{.rate = 600, .period = minutes(1), .burst = 100};
  const TokenBucket slow{.rate = 1, .period = minutes(1), .burst = 100};
  expect_left(fast, slow, 50);
  expect_left(slow, fast, 35);  // 5/s is this server's share
  const LeakyBucket fast_queue{.rate = 600, .period = minutes(1), .queue = 99, .delays = false};
  const LeakyBucket slow_queue{.rate = 1, .period = minutes(1), .queue = 99, .delays = false};
  expect_left(fast_queue, slow_queue, 50);
  expect_left(slow_queue, fast_queue, 35);
}

// The units that are not undone still count.
TEST(PendingCharges, Undo_AnyKindOfWindow_UndoneUnitsNoLongerCount) {
  const SlidingWindow segments{.limit = 100, .window = minutes(1)};
  const SlidingLog log{.limit = 100, .window = minutes(1)};
  const FixedWindow window{.limit = 100, .window = minutes(1)};
  const Share share = Share::Whole();
  const std::optional<SeenState> seen;
  for (const Limit& limit : {Limit(segments), Limit(log), Limit(window)}) {
    SCOPED_TRACE(limit.index());
    PendingCharges charges;
    const PendingCharges::Subject subject{.key = "k", .limit = limit, .share = share, .seen = seen};
    const auto first = charges.Add(subject, 5, kLost);
    const auto second = charges.Add(subject, 3, kLost + seconds(2));
    ASSERT_TRUE(first && second);
    const Time later = kLost + seconds(3);
    EXPECT_TRUE(charges.Undo("k", {.added = *first, .units = 5, .used = 1}, later));
    EXPECT_EQ(charges.Find("k", later), 4);
    EXPECT_TRUE(charges.Undo("k", {.added = *second, .units = 3, .used = 0}, later));
    EXPECT_EQ(charges.Find("k", later), 1);
  }
}

TEST(PendingCharges, TooManyCounters_ChargesToNewOnesAreDropped) {
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  std::size_t kept = 0;
  for (std::size_t i = 0; i < 2 * PendingCharges::kMaxCounters; ++i) {
    kept += counter.Add(1, kLost, std::to_string(i)) ? 1 : 0;
  }
  EXPECT_EQ(kept, PendingCharges::kMaxCounters);
  EXPECT_EQ(counter.charges.size(), PendingCharges::kMaxCounters);
  EXPECT_TRUE(counter.Add(1, kLost, "0")) << "the counter is known";
}

TEST(PendingCharges, Take_ReturnsTheRequestedNumber_EachOnce) {
  constexpr std::size_t kMany = 500;
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  for (std::size_t i = 0; i < kMany; ++i) counter.Add(1, kLost, std::to_string(i));
  std::set<std::string> taken;
  for (std::size_t i = 0; i < kMany; i += 2) {
    const auto charges = counter.charges.Take(2, kLost);
    ASSERT_EQ(charges.size(), 2u);
    for (const auto& charge : charges) taken.insert(charge.key);
  }
  EXPECT_EQ(taken.size(), kMany);
  EXPECT_EQ(counter.charges.size(), 0u);
  EXPECT_TRUE(counter.charges.Take(2, kLost).empty());
}

// While no units are pending, a server need not look for them.
TEST(PendingCharges, FirstUnits_AreAnnounced) {
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  int announced = 0;
  counter.charges.on_first = [&] { ++announced; };
  ASSERT_TRUE(counter.Add(1, kLost));
  ASSERT_TRUE(counter.Add(1, kLost));
  ASSERT_TRUE(counter.Add(1, kLost, "another"));
  EXPECT_EQ(announced, 1);
  EXPECT_EQ(counter.charges.Take(10, kLost).size(), 2u);
  ASSERT_TRUE(counter.Add(1, kLost));
  EXPECT_EQ(announced, 2);
}

// If the store keeps refusing a charge, this charge must not delay the others.
TEST(PendingCharges, ChargesAreAlwaysPutBack_OthersAreTakenToo) {
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  for (int i = 0; i < 10; ++i) counter.Add(1, kLost, std::to_string(i));
  std::set<std::string> taken;
  for (int i = 0; i < 200; ++i) {
    auto charges = counter.charges.Take(1, kLost);
    ASSERT_EQ(charges.size(), 1u);
    taken.insert(charges[0].key);
    counter.charges.PutBack(std::move(charges[0]), kLost);
  }
  EXPECT_GT(taken.size(), 5u);
}

TEST(PendingCharges, PutBack_AddsToTheUnitsAddedMeanwhile) {
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  for (int round = 0; round < 200; ++round) {
    const std::int64_t meanwhile = round % 3;
    counter.Add(5, kLost);
    auto taken = counter.charges.Take(1, kLost);
    ASSERT_EQ(taken.size(), 1u);
    auto charge = std::move(taken[0]);
    if (meanwhile > 0) counter.Add(meanwhile, kLost);
    counter.charges.PutBack(std::move(charge), kLost);
    EXPECT_EQ(counter.charges.size(), 1u);
    EXPECT_EQ(counter.charges.Find("k", kLost), 5 + meanwhile);
    counter.charges.Forget("k");
    EXPECT_EQ(counter.charges.size(), 0u);
    EXPECT_EQ(counter.charges.Find("k", kLost), 0);
  }
}

TEST(PendingCharges, TakenUnits_CountUntilTheyAreSettled) {
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  counter.Add(5, kLost);
  const auto taken = counter.charges.Take(1, kLost);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(counter.charges.Find("k", kLost), 5);
  counter.Add(2, kLost);
  EXPECT_EQ(counter.charges.Find("k", kLost), 7);
  counter.charges.Settle(taken[0]);
  EXPECT_EQ(counter.charges.Find("k", kLost), 2);
}

TEST(PendingCharges, CounterIsResetWhileItsUnitsAreTaken_TheyAreNotPutBack) {
  Counter counter(FixedWindow{.limit = 100, .window = minutes(1)});
  counter.Add(5, kLost);
  auto taken = counter.charges.Take(1, kLost);
  ASSERT_EQ(taken.size(), 1u);
  counter.charges.Forget("k");
  counter.charges.PutBack(std::move(taken[0]), kLost);
  EXPECT_EQ(counter.charges.Find("k", kLost), 0);
}

}  // namespace
}  // namespace sluice
