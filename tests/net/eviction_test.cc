// Which connections are closed to make room for a new one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <vector>

#include "net/loop_connections.h"

namespace sluice::net {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum Occupant::State;

SteadyTime At(int second) { return SteadyTime(std::chrono::seconds(second)); }

struct Place {
  Occupant::State state;
  SteadyTime since;
  std::string_view network;
};

// Chooses with the average number of places as the share.
std::vector<std::size_t> Choose(const std::vector<Place>& taken, std::size_t least,
                                std::size_t count) {
  std::map<std::string_view, std::size_t> places;
  for (const Place& it : taken) ++places[it.network];
  std::vector<Occupant> occupants;
  for (const Place& it : taken) {
    occupants.push_back({.state = it.state, .since = it.since, .places = places[it.network]});
  }
  return ChooseVictims(occupants, least, occupants.size() / std::max<std::size_t>(places.size(), 1),
                       count);
}

TEST(ChooseVictims, OneNetwork_StuckOnesAreChosenFirst_ThenTheLongestIdle) {
  const std::vector<Place> occupants = {{kIdle, At(1), "a"},  {kBusy, At(0), "a"},
                                        {kStuck, At(5), "a"}, {kStuck, At(4), "a"},
                                        {kIdle, At(2), "a"},  {kIdle, At(3), "a"}};
  EXPECT_THAT(Choose(occupants, 6, 1), ElementsAre(3));
  EXPECT_THAT(Choose(occupants, 0, 4), ElementsAre(3, 2, 0, 4));
  EXPECT_THAT(Choose(occupants, 0, 9), ElementsAre(3, 2, 0, 4, 5));
}

TEST(ChooseVictims, UnusedConnections_AreChosenBeforeUsedOnes) {
  const std::vector<Place> occupants = {
      {kIdle, At(1), "a"}, {kUnused, At(3), "a"}, {kUnused, At(2), "a"}, {kStuck, At(4), "a"}};
  EXPECT_THAT(Choose(occupants, 4, 9), ElementsAre(3, 2, 1, 0));
}

TEST(ChooseVictims, NetworkWithMoreThanItsShare_IsChosenBeforeStuckOnesOfOthers) {
  const std::vector<Place> occupants = {{kStuck, At(1), "honest"},
                                        {kIdle, At(3), "greedy"},
                                        {kIdle, At(2), "greedy"},
                                        {kBusy, At(0), "greedy"}};
  EXPECT_THAT(Choose(occupants, 0, 9), ElementsAre(2, 1, 0));
}

TEST(ChooseVictims, Network_CannotDisplaceOneWithFewerConnections) {
  const std::vector<Place> occupants = {
      {kStuck, At(1), "honest"}, {kBusy, At(2), "greedy"}, {kBusy, At(3), "greedy"}};
  EXPECT_THAT(Choose(occupants, 2, 9), IsEmpty());
  EXPECT_THAT(Choose(occupants, 1, 9), ElementsAre(0));
  EXPECT_THAT(Choose({}, 0, 9), IsEmpty());
}

}  // namespace
}  // namespace sluice::net
