#include "limiter/recent_states.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Time kNow{seconds(1'000'000)};

SeenState SeenAt(Time at, std::int64_t count = 5) {
  return {.snapshot = UsageSnapshot{.counted = count}, .reset_at = at + minutes(1), .at = at};
}
std::int64_t CountOf(const std::optional<SeenState>& seen) {
  return std::get<UsageSnapshot>(seen->snapshot).counted;
}

TEST(RecentStates, LearnedStates_LatestOfEachCounterIsFound) {
  RecentStates states;
  EXPECT_FALSE(states.Find("a"));
  states.Learn("a", SeenAt(kNow, 7));
  states.Learn("b", SeenAt(kNow, 3));
  states.Learn("a", SeenAt(kNow + seconds(1), 6));
  EXPECT_EQ(states.Find("a"), SeenAt(kNow + seconds(1), 6));
  EXPECT_EQ(CountOf(states.Find("b")), 3);
  EXPECT_FALSE(states.Find("c"));
}

TEST(RecentStates, OlderState_IsIgnored_UnlessTheClockWasReplaced) {
  RecentStates states;
  states.Learn("a", SeenAt(kNow, 2));
  states.Learn("a", SeenAt(kNow - Duration(1), 9));
  EXPECT_EQ(CountOf(states.Find("a")), 2);
  states.Learn("a", SeenAt(kNow - minutes(5), 9));
  EXPECT_EQ(CountOf(states.Find("a")), 9);
}

TEST(RecentStates, Reset_ForgetsTheState_OlderAnswersAreIgnored) {
  RecentStates states;
  states.Learn("a", SeenAt(kNow, 2));
  for (const char* key : {"a", "never seen"}) {
    states.Forget(key, kNow + seconds(1));
    EXPECT_FALSE(states.Find(key));
    states.Learn(key, SeenAt(kNow + seconds(1) - Duration(1), 1));
    EXPECT_FALSE(states.Find(key));
    states.Learn(key, SeenAt(kNow + seconds(1), 9));
    EXPECT_EQ(CountOf(states.Find(key)), 9);
  }
}

TEST(RecentStates, Full_LearnsEachNewState_EvictsTheOldest) {
  RecentStates states;
  const auto key = [](std::size_t i) { return "sluice:{shop/r/" + std::to_string(i) + "}"; };
  constexpr std::size_t kCounters = 3 * RecentStates::kMaxCounters;
  for (std::size_t i = 0; i < kCounters; ++i) {
    const SeenState seen = SeenAt(kNow + Duration(static_cast<std::int64_t>(i)));
    states.Learn(key(i), seen);
    ASSERT_EQ(states.Find(key(i)), seen);
  }
  const auto held = [&](std::size_t from, std::size_t to) {
    std::size_t count = 0;
    for (std::size_t i = from; i < to; ++i) count += states.Find(key(i)) ? 1 : 0;
    return count;
  };
  EXPECT_LE(held(0, kCounters), RecentStates::kMaxCounters);
  EXPECT_GE(held(0, kCounters), RecentStates::kMaxCounters * 9 / 10);
  // Random eviction would keep 79 % of the newest, and 9 % of the oldest.
  constexpr std::size_t kNewest = RecentStates::kMaxCounters / 2;
  EXPECT_GE(held(kCounters - kNewest, kCounters), kNewest * 9 / 10);
  EXPECT_LE(held(0, RecentStates::kMaxCounters), RecentStates::kMaxCounters / 20);
}

TEST(RecentStates, QuarterFull_EvictsAlmostNothing) {
  RecentStates states;
  constexpr std::size_t kCounters = RecentStates::kMaxCounters / 4;
  for (std::size_t i = 0; i < kCounters; ++i) states.Learn(std::to_string(i), SeenAt(kNow));
  std::size_t held = 0;
  for (std::size_t i = 0; i < kCounters; ++i) held += states.Find(std::to_string(i)) ? 1 : 0;
  EXPECT_GE(held, kCounters * 99 / 100);
}

TEST(RecentStates, Full_FirstEvictsEntriesThatCountNothing) {
  RecentStates states;
  SeenState exhausted = SeenAt(kNow, 0);
  exhausted.reset_at = kNow + std::chrono::days(1);
  states.Learn("exhausted", exhausted);
  // A flood of keys whose windows end immediately.
  for (std::size_t i = 0; i < RecentStates::kMaxCounters; ++i) {
    SeenState seen = SeenAt(kNow + Duration(static_cast<std::int64_t>(i)));
    seen.reset_at = seen.at;
    states.Learn(std::to_string(i), seen);
  }
  EXPECT_EQ(states.Find("exhausted"), exhausted);
}

}  // namespace
}  // namespace sluice
