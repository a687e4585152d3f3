// Streams whose responses the peer does not read are reset in time, and their memory is bounded.
#include <gtest/gtest.h>

#include "tests/rpc/http2/simulated_peers.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
constexpr std::size_t kMegabyte = 1'000'000;

class OutputTest : public SimulatedPeers {
 protected:
  explicit OutputTest(std::size_t max_buffered_bytes = 4 * kMegabyte)
      : SimulatedPeers({.address = {}, .max_buffered_bytes = max_buffered_bytes}) {}

  // A call of /t/Source that asks for `size` bytes and stays open.
  static std::string Begin(std::uint32_t stream, std::size_t size) {
    return Call(stream, "/t/Source") + Ask(stream, size);
  }
};

TEST_F(OutputTest, OpenStream_WindowClosed_IsResetInTime) {
  Wire& wire = Connect("a");
  Send(wire, Begin(1, 100));
  Pass(wire, seconds(29));
  EXPECT_EQ(ResetOf(wire, 1), std::nullopt);
  Pass(wire, seconds(2));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
}

TEST_F(OutputTest, OpenStream_WindowClosesLater_IsResetInTime) {
  Wire& wire = Connect("a", 1'000);
  Send(wire, Begin(1, 500));
  Pass(wire, seconds(100));
  Send(wire, Ask(1, 10'000));
  Pass(wire, seconds(29));
  EXPECT_EQ(ResetOf(wire, 1), std::nullopt);
  Pass(wire, seconds(2));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
}

// Some bytes are always unsent, but no byte stays unsent for long.
TEST_F(OutputTest, OpenStream_ReadSteadily_IsKept) {
  Wire& wire = Connect("a", 1'000);
  Send(wire, Begin(1, 20'000));
  for (int i = 0; i < 100; ++i) {
    Send(wire, WindowOf(1, 1'000) + Ask(1, 995), seconds(1));
  }
  EXPECT_GT(shared_.buffered_bytes, 0U);
  EXPECT_EQ(ResetOf(wire, 1), std::nullopt);
}

TEST_F(OutputTest, OpenStream_ReadByteByByte_IsResetInTime) {
  Wire& wire = Connect("a");
  Send(wire, Begin(1, 20'000));
  for (int i = 0; i < 31; ++i) Send(wire, WindowOf(1, 1), seconds(1));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
}

TEST_F(OutputTest, Peer_BeyondItsShare_OldestStreamIsReset) {
  Wire& wire = Connect("a");
  for (std::uint32_t i = 0; i < 5; ++i) Send(wire, Begin(2 * i + 1, kMegabyte));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
  EXPECT_EQ(ResetOf(wire, 9), std::nullopt);
  EXPECT_LE(shared_.buffered_bytes, 3 * kMegabyte) << "a lone peer gets 3/4 of the memory";
}

TEST_F(OutputTest, Peer_BeyondItsShare_OthersAreStillServed) {
  Wire& greedy = Connect("a");
  Wire& second = Connect("a");
  Wire& modest = Connect("b");
  for (std::uint32_t i = 0; i < 5; ++i) Send(greedy, Begin(2 * i + 1, kMegabyte));
  Send(modest, Begin(1, kMegabyte / 2));
  EXPECT_EQ(ResetOf(modest, 1), std::nullopt);
  Send(second, Begin(1, kMegabyte));
  EXPECT_EQ(ResetOf(second, 1), kCancel) << "another connection of the same peer";
}

class LargeOutputTest : public OutputTest {
 protected:
  LargeOutputTest() : OutputTest(1'000 * kMegabyte) {}
};

TEST_F(LargeOutputTest, Connection_BeyondItsLimit_OldestStreamIsReset) {
  Wire& wire = Connect("a");
  for (std::uint32_t i = 0; i < 30; ++i) Send(wire, Begin(2 * i + 1, kMegabyte));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
  EXPECT_EQ(ResetOf(wire, 59), std::nullopt);
  EXPECT_LE(shared_.buffered_bytes, rpc::http2::MessageMemory::kMaxBytes);
}

}  // namespace
}  // namespace sluice::test
