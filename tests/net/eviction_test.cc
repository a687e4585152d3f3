// Which connections are closed to make room for a new one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/loop_connections.h"
#include "tests/net/test_protocol.h"

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

// The occupants to close for a new connection. The new connection's network has `least` places, and
// `waiting` of its occupants wait for their peers. If waiting occupants are chosen, occupants that
// began to wait after `since` are spared. A network's share is the average number of places per
// network.
std::vector<std::size_t> Choose(const std::vector<Place>& taken, std::size_t least,
                                std::size_t count, std::size_t waiting = 0,
                                SteadyTime since = SteadyTime::max()) {
  std::map<std::string_view, std::size_t> places;
  std::map<std::string_view, std::size_t> waits;
  std::vector<Occupant> occupants;
  for (const Place& it : taken) {
    occupants.push_back({.state = it.state, .since = it.since});
    ++places[it.network];
    if (occupants.back().waits_for_peer()) ++waits[it.network];
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    occupants[i].places = places[taken[i].network];
    occupants[i].waiting = waits[taken[i].network];
  }
  return ChooseVictims(occupants, {.since = since, .places = least, .waiting = waiting},
                       occupants.size() / std::max<std::size_t>(places.size(), 1), count);
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
  const std::vector<Place> occupants = {{kIdle, At(1), "a"},   {kUnused, At(3), "a"},
                                        {kUnused, At(2), "a"}, {kStuck, At(4), "a"},
                                        {kBusy, At(0), "a"},   {kBusy, At(0), "a"}};
  EXPECT_THAT(Choose(occupants, 6, 9), ElementsAre(3, 2, 1, 0));
}

TEST(ChooseVictims, ConnectionsOfANetworkBeyondItsShare_AreChosenBeforeStuckOnesOfOthers) {
  const std::vector<Place> occupants = {{kStuck, At(1), "honest"},
                                        {kIdle, At(3), "greedy"},
                                        {kIdle, At(2), "greedy"},
                                        {kBusy, At(0), "greedy"}};
  EXPECT_THAT(Choose(occupants, 0, 9), ElementsAre(2, 1, 0));
}

TEST(ChooseVictims, MostWaitForTheirPeers_LongestWaitingAreChosen_ConnectionsInUseAreKept) {
  const std::vector<Place> occupants = {{kIdle, At(0), "proxy"}, {kIdle, At(0), "proxy"},
                                        {kIdle, At(0), "proxy"}, {kUnused, At(2), "a"},
                                        {kStuck, At(3), "a"},    {kUnused, At(1), "b"},
                                        {kUnused, At(4), "c"}};
  EXPECT_THAT(Choose(occupants, 0, 9), ElementsAre(5, 3, 4, 6));
  EXPECT_THAT(Choose(occupants, 3, 1), ElementsAre(5)) << "the proxy opens another connection";
  EXPECT_THAT(Choose(occupants, 2, 9, 2), ElementsAre(3, 4)) << "only those of network a";
  EXPECT_THAT(Choose(occupants, 3, 9, 3), IsEmpty());
  EXPECT_THAT(Choose(occupants, 0, 9, 0, At(2)), ElementsAre(5, 3)) << "others began later";
}

TEST(ChooseVictims, NetworkWithFewerConnections_IsNotDisplaced) {
  const std::vector<Place> occupants = {
      {kStuck, At(1), "honest"}, {kBusy, At(2), "greedy"}, {kBusy, At(3), "greedy"}};
  EXPECT_THAT(Choose(occupants, 2, 9), IsEmpty());
  EXPECT_THAT(Choose(occupants, 1, 9), ElementsAre(0));
  EXPECT_THAT(Choose({}, 0, 9), IsEmpty());
}

// A connection whose client has sent no request yet, as far as the server has read.
class Unused final : public ServedConnection {
 public:
  Unused(Loop& loop, TransportPtr transport, bool& closed)
      : ServedConnection(loop, std::move(transport), /*has_place=*/true),
        since_(loop.now()),
        closed_(closed) {}

  void Start() override { transport_->Start(*this); }
  void Drain() override {}
  Occupant AsOccupant() const override { return {.state = kUnused, .since = since_}; }

 private:
  void Receive(std::string_view) override {}
  void TakeOutput(std::string&) override {}
  void OnClosed(Closure, std::string_view) override { Close(); }
  void OnClose() override { closed_ = true; }

  const SteadyTime since_;
  bool& closed_;
};

// The loop is late: the client has sent a request, but the loop has not read it yet.
TEST(LoopConnections, InputIsUnread_ConnectionIsSpared) {
  OneIoThread io;
  ConnectionCount count(2);
  LoopConnections connections(io.loop(), count, [] {});
  std::array<bool, 2> closed{};
  std::vector<BlockingSocket> clients;
  for (bool& it : closed) {
    io.Run([&] {
      auto [socket, client] = ConnectedPair(SocketKind::kTcp);
      clients.push_back(std::move(client));
      ASSERT_TRUE(count.TryAdd());
      auto transport = io.loop().Adopt(std::move(socket), FlushStage::kCallers);
      connections.Add(std::make_unique<Unused>(io.loop(), std::move(transport), it));
    });
  }
  io.Run([&] {
    clients[0].Send("GET");
    EXPECT_TRUE(connections.MakeRoom("10.0.0.1"));
    EXPECT_THAT(closed, ElementsAre(false, true)) << "the older one has unread input";
    EXPECT_TRUE(connections.MakeRoom("10.0.0.1"));
    EXPECT_THAT(closed, ElementsAre(true, true)) << "no other one is left";
  });
}

}  // namespace
}  // namespace sluice::net
