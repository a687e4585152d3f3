// Which calls get the remaining places of ServerOptions::max_calls: no peer gets more than its
// share, unknown callers are refused first, and a few probes of each connection need no place. When
// calls end, the places and memory that they used are free again. Also tests which connections make
// room for new ones.
#include <gtest/gtest.h>

#include "tests/rpc/http2/simulated_peers.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

class PlacesTest : public SimulatedPeers {
 protected:
  PlacesTest() : SimulatedPeers({.address = {}, .max_calls = 400}) {}
};

TEST_F(PlacesTest, Peers_OneAfterAnother_EachLeavesPlacesForTheNext) {
  EXPECT_EQ(Open(Connect("a"), 500), 300) << "three quarters of the places";
  EXPECT_EQ(Open(Connect("a"), 10), 0) << "another connection of the same peer";
  EXPECT_EQ(Open(Connect("b"), 500), 75);
  EXPECT_EQ(Open(Connect("c"), 500), 19);
  EXPECT_EQ(Open(Connect("d"), 1), 1);
}

TEST_F(PlacesTest, Peer_Disconnects_FreesItsPlaces) {
  Wire& wire = Connect("a");
  EXPECT_EQ(Open(wire, 500), 300);
  loop_.RunIteration([&] { connections_.CloseAll(); });
  EXPECT_EQ(Open(Connect("a"), 500), 300);
}

TEST_F(PlacesTest, Probes_CallsRefused_AFewPerConnectionAreStillServed) {
  for (const char* peer : {"a", "b", "c", "d", "e", "f", "g"}) Open(Connect(peer), 500);
  Wire& wire = Connect("a");
  EXPECT_EQ(Open(wire, 1), 0);
  for (std::uint32_t stream = 101; stream < 101 + 2 * 16; stream += 2) {
    Send(wire, Call(stream, "/t/Probe"));
    EXPECT_EQ(ResetOf(wire, stream), std::nullopt) << stream;
  }
  Send(wire, Call(201, "/t/Probe"));
  EXPECT_EQ(ResetOf(wire, 201), kRefused) << "at most 16 open probes on a connection";
  Send(wire, Reset(101) + Call(203, "/t/Probe"));
  EXPECT_EQ(ResetOf(wire, 203), std::nullopt);
}

TEST_F(PlacesTest, Probes_Many_TakeNoPlaces) {
  for (int i = 0; i < 100; ++i) {
    Wire& wire = Connect("a");
    for (std::uint32_t stream = 1; stream < 32; stream += 2) Send(wire, Call(stream, "/t/Probe"));
  }
  EXPECT_EQ(Open(Connect("a"), 500), 300);
}

TEST_F(PlacesTest, Connection_WithACall_DoesNotMakeRoom) {
  EXPECT_FALSE(MakesRoomFor("b"));
  Wire& wire = Connect("a");
  Send(wire, Call(1, "/t/Source"));
  Pass(wire, seconds(1));
  EXPECT_FALSE(MakesRoomFor("b"));
  Send(wire, Reset(1));
  EXPECT_TRUE(MakesRoomFor("b"));
  EXPECT_FALSE(MakesRoomFor("b")) << "the connection is closed";
}

TEST_F(PlacesTest, Connection_WithProbesOnly_MakesRoom) {
  Send(Connect("a"), Call(1, "/t/Probe"));
  EXPECT_TRUE(MakesRoomFor("b"));
}

TEST_F(PlacesTest, Connection_WithAnIncompleteMessage_MakesRoom) {
  Wire& wire = Connect("a");
  Send(wire, Call(1, "/t/Source") +
                 Http2Frame{.stream = 1, .payload = Framed("12").substr(0, 6)}.Bytes());
  EXPECT_FALSE(MakesRoomFor("b")) << "the rest may be on its way";
  Pass(wire, seconds(1));
  EXPECT_TRUE(MakesRoomFor("b"));
}

TEST_F(PlacesTest, Connection_WithAnUnreadAnswer_MakesRoom) {
  Wire& wire = Connect("a", /*window=*/10);
  Send(wire, Call(1, "/t/Source") + Ask(1, 1'000));
  Pass(wire, seconds(1));
  EXPECT_TRUE(MakesRoomFor("b"));
}

TEST_F(PlacesTest, Connection_WithoutAPlace_ServesProbesForASecond) {
  const double before = shared_.metrics.connections.Value();
  Wire& wire = Connect("a", 0, /*has_place=*/false);
  Send(wire, Call(1, "/t/Source") + Call(3, "/t/Probe"));
  EXPECT_EQ(ResetOf(wire, 1), kRefused);
  EXPECT_EQ(ResetOf(wire, 3), std::nullopt);
  EXPECT_FALSE(MakesRoomFor("b"));
  EXPECT_EQ(shared_.metrics.connections.Value(), before + 1);
  for (int i = 0; i < 3; ++i) loop_.RunIteration({}, seconds(1));
  EXPECT_EQ(shared_.metrics.connections.Value(), before);
}

TEST_F(PlacesTest, ConnectionsWithoutAPlace_Many_TheOldestMakeRoom) {
  for (int i = 0; i < 100; ++i) Connect("a", 0, /*has_place=*/false);
  EXPECT_LT(shared_.metrics.connections.Value(), 20);
  Wire& last = Connect("a", 0, /*has_place=*/false);
  Send(last, Call(1, "/t/Probe"));
  EXPECT_EQ(ResetOf(last, 1), std::nullopt);
}

// 15 KB on the wire are decompressed to 900 KB. All calls are served, but over several iterations,
// so that other connections can run in between.
TEST_F(PlacesTest, Headers_ThatGrowWhenDecompressed_TakeSeveralIterations) {
  Wire& wire = Connect("a");
  const std::string block = HeaderBlock(RequestHeaders("/t/Source"));
  const std::string field = "\x40\x01x\x7f\xb9\x16" + std::string(3'000, 'y');  // entry 62
  std::string calls;
  for (std::uint32_t stream = 1; stream < 200; stream += 2) {
    const std::string more = stream == 1 ? field : std::string(3, '\xbe');
    calls += Http2Frame{.type = Http2Frame::kHeaders,
                        .stream = stream,
                        .payload = block + more,
                        .flags = Http2Frame::kEndHeaders}
                 .Bytes();
  }
  Send(wire, calls);
  EXPECT_GT(handlers_, 5);
  EXPECT_LT(handlers_, 50);
  Pass(wire, seconds(20));
  EXPECT_EQ(handlers_, 100);
}

class KnownCallersTest : public SimulatedPeers {
 protected:
  KnownCallersTest()
      : SimulatedPeers({.address = {}, .max_calls = 400, .knows_caller = [](const rpc::Call& call) {
                          return call.Metadata("authorization") == "Bearer known";
                        }}) {}

  const Headers known_ = {{"authorization", "Bearer known"}};
};

TEST_F(KnownCallersTest, UnknownCallers_MoreThanHalfThePlacesAreUsed_AreRefusedFirst) {
  Wire& wire = Connect("a");
  EXPECT_EQ(Open(wire, 500), 201);
  EXPECT_EQ(Open(wire, 10, {{"authorization", "Bearer other"}}), 0);
  EXPECT_EQ(Open(wire, 50, known_), 50)
      << "callers with a known token are served, even from the same address";
}

class HeadersMemoryTest : public SimulatedPeers {
 protected:
  HeadersMemoryTest() : SimulatedPeers({.address = {}, .max_buffered_bytes = 1'000'000}) {}
};

TEST_F(HeadersMemoryTest, Headers_ThatAreKept_CountUntilTheCallEnds) {
  Wire& wire = Connect("a");
  Send(wire, Call(1, "/t/Source", {{"authorization", std::string(10'000, 'a')}}));
  EXPECT_GT(shared_.buffered_bytes, 10'000U);
  Send(wire, Call(3, "/t/Source", {{"x", std::string(10'000, 'a')}}));
  EXPECT_LT(shared_.buffered_bytes, 11'000U) << "no service reads the field x";
  Send(wire, Reset(1));
  EXPECT_EQ(shared_.buffered_bytes, 0U);
}

TEST_F(HeadersMemoryTest, Headers_BeyondThePeersShare_FailTheCall) {
  Wire& wire = Connect("a", 65'535);
  Open(wire, 200, {{"authorization", std::string(10'000, 'a')}});
  EXPECT_LE(shared_.buffered_bytes, 750'000U);
  EXPECT_GE(shared_.buffered_bytes, 700'000U);
  EXPECT_LT(handlers_, 76);
}

TEST_F(PlacesTest, Pools_AfterAPeak_AreTrimmed) {
  for (const char* peer : {"a", "b", "c", "d"}) Open(Connect(peer), 500);
  EXPECT_GT(handlers_, 390);
  loop_.RunIteration([&] { connections_.CloseAll(); });
  Wire& wire = Connect("a");
  EXPECT_EQ(Open(wire, 1), 1);
  EXPECT_GT(handlers_, 390) << "the handlers are kept, since another peak may follow";
  Pass(wire, seconds(10));
  EXPECT_EQ(handlers_, 1);
}

}  // namespace
}  // namespace sluice::test
