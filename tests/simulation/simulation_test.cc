// Runs some schedules of the simulation. Tests that it finds faults and is reproducible. `simulate
// 1 1000000` runs many more.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/simulation/schedule.h"

namespace sluice::simulation {
namespace {

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() { spdlog::set_level(spdlog::level::off); }
};

TEST_F(SimulationTest, SomeSchedules_KeepAllPromises) {
  std::int64_t by_store = 0;
  std::int64_t by_grant = 0;
  std::int64_t by_fallback = 0;
  std::int64_t settled = 0;
  std::int64_t queued = 0;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    const Report report = RunSchedule(seed);
    for (const std::string& what : report.broken) ADD_FAILURE() << "seed " << seed << ": " << what;
    by_store += report.admitted_by_store;
    by_grant += report.admitted_by_grant;
    by_fallback += report.admitted_by_fallback;
    settled += report.settled;
    queued += report.queued;
  }
  EXPECT_GT(by_store, 500);
  EXPECT_GT(by_grant, 500);
  EXPECT_GT(by_fallback, 50);
  EXPECT_GT(settled, 500);
  EXPECT_GT(queued, 20);
}

TEST_F(SimulationTest, Seed_ReplaysItsSchedule) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(RunSchedule(seed).history, RunSchedule(seed).history) << "seed " << seed;
  }
}

struct PlantedFault {
  const char* name;
  Planted fault;
};
void PrintTo(const PlantedFault& planted, std::ostream* out) { *out << planted.name; }

class PlantedFaultTest : public SimulationTest, public testing::WithParamInterface<PlantedFault> {};

TEST_P(PlantedFaultTest, SomeSchedules_OneOfThemFindsTheFault) {
  const std::uint64_t seeds = IsOfGrants(GetParam().fault) ? 10'000 : 400;  // until the first find
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    if (!RunSchedule(seed, GetParam().fault).broken.empty()) return RecordProperty("seed", seed);
  }
  FAIL() << "no schedule found the fault";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, PlantedFaultTest,
    testing::Values(PlantedFault{"RepliesSwapped", Planted::kRepliesSwapped},
                    PlantedFault{"GrantsUncounted", Planted::kGrantsUncounted},
                    PlantedFault{"CallsRunTwice", Planted::kCallsRunTwice},
                    PlantedFault{"StatesMisread", Planted::kStatesMisread},
                    PlantedFault{"KeysExpireEarly", Planted::kKeysExpireEarly},
                    PlantedFault{"CountersByPlace", Planted::kCountersByPlace},
                    PlantedFault{"UndoneLearned", Planted::kUndoneLearned},
                    PlantedFault{"GracePeriodsLate", Planted::kGracePeriodsLate},
                    PlantedFault{"SettledTwice", Planted::kSettledTwice},
                    PlantedFault{"SettledByRefund", Planted::kSettledByRefund},
                    PlantedFault{"RecordsLeft", Planted::kRecordsLeft},
                    PlantedFault{"LateLeasesKept", Planted::kLateLeasesKept},
                    PlantedFault{"BoundsKept", Planted::kBoundsKept},
                    PlantedFault{"ExpiryUnlearned", Planted::kExpiryUnlearned},
                    PlantedFault{"PocketsRefilled", Planted::kPocketsRefilled},
                    PlantedFault{"PocketsUnseen", Planted::kPocketsUnseen},
                    PlantedFault{"LateReturnsTaken", Planted::kLateReturnsTaken},
                    PlantedFault{"ReturnsCountedTwice", Planted::kReturnsCountedTwice},
                    PlantedFault{"GrantsOnWrongClock", Planted::kGrantsOnWrongClock},
                    PlantedFault{"GrantsLeft", Planted::kGrantsLeft},
                    PlantedFault{"DenialsOutliveReturns", Planted::kDenialsOutliveReturns}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace sluice::simulation
