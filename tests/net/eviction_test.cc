#include "net/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace sluice::net {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum Occupant::State;

SteadyTime At(int second) { return SteadyTime(std::chrono::seconds(second)); }

TEST(ChooseVictims, OneNetwork_StuckOnesAreChosenFirst_ThenTheLongestIdle) {
  const std::vector<Occupant> occupants = {{kIdle, At(1), "a"},  {kBusy, At(0), "a"},
                                           {kStuck, At(5), "a"}, {kStuck, At(4), "a"},
                                           {kIdle, At(2), "a"},  {kIdle, At(3), "a"}};
  EXPECT_THAT(ChooseVictims(occupants, "a", 1), ElementsAre(3));
  EXPECT_THAT(ChooseVictims(occupants, "b", 4), ElementsAre(3, 2, 0, 4));
  EXPECT_THAT(ChooseVictims(occupants, "b", 9), ElementsAre(3, 2, 0, 4, 5));
}

TEST(ChooseVictims, UnusedConnections_AreChosenBeforeUsedOnes) {
  const std::vector<Occupant> occupants = {
      {kIdle, At(1), "a"}, {kUnused, At(3), "a"}, {kUnused, At(2), "a"}, {kStuck, At(4), "a"}};
  EXPECT_THAT(ChooseVictims(occupants, "a", 9), ElementsAre(3, 2, 1, 0));
}

TEST(ChooseVictims, NetworkWithMoreThanItsShare_IsChosenBeforeStuckOnesOfOthers) {
  const std::vector<Occupant> occupants = {{kStuck, At(1), "honest"},
                                           {kIdle, At(3), "greedy"},
                                           {kIdle, At(2), "greedy"},
                                           {kBusy, At(0), "greedy"}};
  EXPECT_THAT(ChooseVictims(occupants, "new", 9), ElementsAre(2, 1, 0));
}

TEST(ChooseVictims, Network_CannotDisplaceOneWithFewerConnections) {
  const std::vector<Occupant> occupants = {
      {kStuck, At(1), "honest"}, {kBusy, At(2), "greedy"}, {kBusy, At(3), "greedy"}};
  EXPECT_THAT(ChooseVictims(occupants, "greedy", 9), IsEmpty());
  EXPECT_THAT(ChooseVictims(occupants, "honest", 9), ElementsAre(0));
  EXPECT_THAT(ChooseVictims({}, "new", 9), IsEmpty());
}

}  // namespace
}  // namespace sluice::net
