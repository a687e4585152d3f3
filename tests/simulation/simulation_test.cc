// Runs some schedules of the simulation, and tests that it finds faults and is reproducible. Many
// more: `simulate 1 1000000`.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/simulation/schedule.h"

namespace sluice::simulation {
namespace {

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() { spdlog::set_level(spdlog::level::off); }

  // The seed of the first schedule that breaks a promise; 0 if none of them does.
  static std::uint64_t FirstBroken(RedisServer::Planted planted) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      if (!RunSchedule(seed, planted).broken.empty()) return seed;
    }
    return 0;
  }
};

TEST_F(SimulationTest, SomeSchedules_KeepAllPromises) {
  std::int64_t by_store = 0;
  std::int64_t by_fallback = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Report report = RunSchedule(seed);
    for (const std::string& what : report.broken) ADD_FAILURE() << "seed " << seed << ": " << what;
    by_store += report.admitted_by_store;
    by_fallback += report.admitted_by_fallback;
  }
  EXPECT_GT(by_store, 500);
  EXPECT_GT(by_fallback, 50);
}

TEST_F(SimulationTest, Seed_ReplaysItsSchedule) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(RunSchedule(seed).history, RunSchedule(seed).history) << "seed " << seed;
  }
}

TEST_F(SimulationTest, ReplyOfAnotherCheck_IsFound) {
  EXPECT_NE(FirstBroken(RedisServer::Planted::kRepliesSwapped), 0u);
}

TEST_F(SimulationTest, GrantThatIsNotCounted_IsFound) {
  EXPECT_NE(FirstBroken(RedisServer::Planted::kGrantsUncounted), 0u);
}

TEST_F(SimulationTest, CallThatRunsTwice_IsFound) {
  EXPECT_NE(FirstBroken(RedisServer::Planted::kCallsRunTwice), 0u);
}

}  // namespace
}  // namespace sluice::simulation
