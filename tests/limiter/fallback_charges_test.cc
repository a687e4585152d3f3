// Units admitted without the store: how many still count, until the store takes them.
#include "limiter/fallback_charges.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::string_view kBucket = "sluice:{shop/r/}:token_bucket:1s:warmup";
constexpr Time kLost(hours(1000));

// However cold the bucket is in which they were admitted.
TEST(FallbackCharges, UnitsOfAWarmingBucket_AreAsManyAsWereAdmitted_UntilRefilled) {
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
      FallbackCharges charges;
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(charges.Add({.key = kBucket, .limit = limit, .share = share, .seen = seen},
                                row.cost, kLost));
      }
      EXPECT_EQ(charges.Find(kBucket, kLost), 2 * row.cost);
      auto taken = charges.Take(10, kLost);
      ASSERT_EQ(taken.size(), 1u);
      EXPECT_EQ(taken[0].cost, 2 * row.cost);
      charges.PutBack(std::move(taken[0]), kLost);
      EXPECT_EQ(charges.Find(kBucket, kLost + 3 * row.interval), 2 * row.cost - 3);
      EXPECT_TRUE(charges.Take(10, kLost + 2 * row.cost * row.interval).empty());
    }
  }
}

}  // namespace
}  // namespace sluice
