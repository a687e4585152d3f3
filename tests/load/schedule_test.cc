// The start times of messages, in simulated time.
#include "load/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice::load {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr SteadyTime kBegin{std::chrono::hours(1)};

// Takes all messages that are due at `now`. Returns their starts, in milliseconds after kBegin.
std::vector<std::int64_t> TakeAll(Schedule& schedule, SteadyTime now) {
  std::vector<std::int64_t> starts;
  while (schedule.IsDue(now)) {
    starts.push_back((schedule.Take(now) - kBegin) / milliseconds(1));
  }
  return starts;
}

TEST(Schedule, ClosedLoop_AMessageIsAlwaysDueUntilTheEnd) {
  Schedule schedule(kBegin + seconds(1));
  EXPECT_TRUE(schedule.IsDue(kBegin));
  EXPECT_EQ(schedule.Take(kBegin), kBegin);
  EXPECT_EQ(schedule.Take(kBegin + milliseconds(3)), kBegin + milliseconds(3));
  EXPECT_TRUE(schedule.IsDue(kBegin + milliseconds(999)));
  EXPECT_FALSE(schedule.IsDue(kBegin + seconds(1)));
  EXPECT_TRUE(schedule.Over(kBegin + seconds(1)));
  EXPECT_EQ(schedule.next(), SteadyTime::max());
}

TEST(Schedule, OpenLoop_EachMessageStartsAtItsTime) {
  Schedule schedule(kBegin, kBegin + seconds(1), {.interval = milliseconds(10)});
  EXPECT_EQ(TakeAll(schedule, kBegin), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(schedule.next(), kBegin + milliseconds(10));
  EXPECT_FALSE(schedule.IsDue(kBegin + milliseconds(9)));
  EXPECT_EQ(TakeAll(schedule, kBegin + milliseconds(10)), (std::vector<std::int64_t>{10}));
}

TEST(Schedule, OpenLoopAfterAStall_NoMessageIsSkipped_EachKeepsItsStart) {
  Schedule schedule(kBegin, kBegin + seconds(1), {.interval = milliseconds(100)});
  TakeAll(schedule, kBegin);
  EXPECT_EQ(TakeAll(schedule, kBegin + milliseconds(450)),
            (std::vector<std::int64_t>{100, 200, 300, 400}));
  // No message is skipped even if the stall outlasts the run.
  EXPECT_FALSE(schedule.Over(kBegin + seconds(9)));
  EXPECT_EQ(TakeAll(schedule, kBegin + seconds(9)),
            (std::vector<std::int64_t>{500, 600, 700, 800, 900}));
  EXPECT_TRUE(schedule.Over(kBegin + seconds(9)));
}

TEST(Schedule, OpenLoopOfManyThreads_MessagesOfAllAreEvenlySpaced) {
  std::vector<std::int64_t> starts;
  for (std::uint64_t first = 0; first < 3; ++first) {
    Schedule schedule(kBegin, kBegin + milliseconds(60),
                      {.interval = milliseconds(10), .first = first, .step = 3});
    for (const auto start : TakeAll(schedule, kBegin + seconds(1))) starts.push_back(start);
  }
  std::sort(starts.begin(), starts.end());
  EXPECT_EQ(starts, (std::vector<std::int64_t>{0, 10, 20, 30, 40, 50}));
}

TEST(Schedule, OpenLoopOfManyMessages_DoesNotDrift) {
  Schedule schedule(kBegin, kBegin + seconds(60), {.interval = milliseconds(1) / 3.0});
  SteadyTime start = kBegin;
  for (int i = 0; i <= 150'000; ++i) start = schedule.Take(schedule.next());
  EXPECT_LE(std::chrono::abs(start - (kBegin + seconds(50))), std::chrono::microseconds(1));
}

TEST(Schedule, EndedEarly_OnlyMessagesDueBeforeTheEndAreStarted) {
  Schedule schedule(kBegin, kBegin + seconds(1), {.interval = milliseconds(100)});
  schedule.EndAt(kBegin + milliseconds(150));
  schedule.EndAt(kBegin + milliseconds(800));  // later than the end so far: no effect
  EXPECT_EQ(TakeAll(schedule, kBegin + seconds(1)), (std::vector<std::int64_t>{0, 100}));
  EXPECT_TRUE(schedule.Over(kBegin + milliseconds(150)));
}

}  // namespace
}  // namespace sluice::load
