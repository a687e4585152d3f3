// Grants: regardless of what the holders, the network and the clocks do, the units used in an
// interval never exceed the limit. A unit counts at the time of its use.
// SLUICE_MODEL_SCHEDULES sets the number of schedules (default 300).
#include "core/algorithm/grant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/core/grant_model.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TokenBucket kTokens{.rate = 500, .period = seconds(1), .burst = 400};
constexpr FixedWindow kWindow{
    .limit = 700, .window = milliseconds(700), .align = FixedWindow::Align::kEpoch};

int Schedules() {
  const char* const wanted = std::getenv("SLUICE_MODEL_SCHEDULES");
  return wanted != nullptr ? std::atoi(wanted) : 300;
}

// For each interval, subtracts rate · length / period from the units used. Returns the largest
// difference, multiplied by the period, so that it is a whole number.
std::int64_t MostBeyondRate(const std::vector<GrantModel::Use>& uses) {
  std::int64_t excess = 0;
  std::int64_t most = 0;
  Duration last{};
  for (const GrantModel::Use& use : uses) {
    excess = std::max<std::int64_t>(0, excess - kTokens.rate * (use.at - last).count());
    excess += use.units * kTokens.period.count();
    most = std::max(most, excess);
    last = use.at;
  }
  return most;
}

bool TokensHold(std::uint32_t seed, GrantModel::Planted planted = GrantModel::Planted::kNone) {
  GrantModel model(kTokens, seed, planted);
  return MostBeyondRate(model.Run()) <= kTokens.burst * kTokens.period.count();
}

bool WindowsHold(std::uint32_t seed, GrantModel::Planted planted = GrantModel::Planted::kNone) {
  GrantModel model(kWindow, seed, planted);
  std::map<Time, std::int64_t> used;
  for (const GrantModel::Use& use : model.Run()) {
    used[kWindow.WindowStart(model.RedisTime(use.at))] += use.units;
  }
  return std::all_of(used.begin(), used.end(),
                     [](const auto& it) { return it.second <= kWindow.limit; });
}

TEST(Grants, AnyScheduleOfHolders_UsesAtMostBurstPlusRateTimesLength) {
  for (int seed = 0; seed < Schedules(); ++seed) {
    ASSERT_TRUE(TokensHold(static_cast<std::uint32_t>(seed))) << "seed " << seed;
  }
}

TEST(Grants, AnyScheduleOfHolders_UsesAtMostTheLimitInEachWindow) {
  for (int seed = 0; seed < Schedules(); ++seed) {
    ASSERT_TRUE(WindowsHold(static_cast<std::uint32_t>(seed))) << "seed " << seed;
  }
}

// The schedules are a useful test only if many units are used from grants.
TEST(Grants, Schedules_UseManyUnitsFromGrants) {
  std::int64_t from_grants = 0;
  std::int64_t all = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    GrantModel model(kTokens, seed);
    for (const GrantModel::Use& use : model.Run()) all += use.units;
    from_grants += model.used_from_grants();
  }
  EXPECT_GT(5 * from_grants, all);
}

// The first seed that shows the fault; 1,000 if no smaller seed shows it.
template <typename Holds>
std::uint32_t FirstFound(const Holds& holds, GrantModel::Planted planted) {
  std::uint32_t seed = 0;
  while (seed < 1'000 && holds(seed, planted)) ++seed;
  return seed;
}

TEST(GrantsPlantedFault, RefillWithoutCap_IsFoundWithinFiveSeeds) {
  EXPECT_LT(FirstFound(TokensHold, GrantModel::Planted::kRefillsWithoutCap), 5u);
}

TEST(GrantsPlantedFault, ReturnTwice_IsFound) {
  EXPECT_LT(FirstFound(TokensHold, GrantModel::Planted::kReturnsTwice), 1'000u);
  EXPECT_LT(FirstFound(WindowsHold, GrantModel::Planted::kReturnsTwice), 1'000u);
}

TEST(GrantsPlantedFault, HolderThatUsesBeyondTheEnd_IsFound) {
  EXPECT_LT(FirstFound(TokensHold, GrantModel::Planted::kUsesBeyondTheEnd), 1'000u);
}

}  // namespace
}  // namespace sluice
