// Responses that the peer does not take: they end in time, and their memory is bounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "rpc/http2/connection.h"
#include "rpc/http2/shard.h"
#include "tests/rpc/http2/raw_client.h"
#include "tests/support/manual_loop.h"

namespace sluice::rpc::http2 {
namespace {

using std::chrono::seconds;
using test::Http2Frame;
constexpr std::size_t kMegabyte = 1'000'000;
constexpr int kCancel = 8;

// For each message N, sends N bytes.
class Source final : public StreamHandler {
  void OnStart(const Call&) override {}
  void OnMessage(std::string_view message) override {
    Send(std::string(std::stoul(std::string(message)), 'x'));
  }
  void OnHalfClose() override { Finish({}); }
  void OnDrain() override { Finish({}); }
  void OnCancel() override { Finish({}); }
};

class OutputTest : public testing::Test {
 protected:
  using Wire = test::ManualLoop::Wire;

  explicit OutputTest(std::size_t max_buffered_bytes = 4 * kMegabyte)
      : shared_({{.path = "/t/Source",
                  .unary = nullptr,
                  .stream = [](net::Loop&) { return std::make_unique<Source>(); }}},
                {.address = {}, .max_buffered_bytes = max_buffered_bytes}, {}) {}
  ~OutputTest() override {
    loop_.RunIteration([this] { shard_.CloseConnections(); });
    loop_.RunIteration();
    EXPECT_EQ(shared_.buffered_bytes, 0U);
  }

  // A peer whose streams begin with a window of `window` bytes.
  Wire& Connect(const std::string& network, std::uint32_t window = 0) {
    auto* const wire = new Wire(loop_, net::FlushStage::kCallers, {.network = network});
    loop_.RunIteration([&] {
      shared_.connections.TryAdd(SIZE_MAX);
      shard_.AddConnection(net::TransportPtr(wire, net::TransportDeleter{.loop = &loop_}), {});
      const std::string setting = test::BigEndian(4, 2) + test::BigEndian(window, 4);
      wire->Receive(test::kHttp2Preface +
                    Http2Frame{.type = Http2Frame::kSettings, .payload = setting}.Bytes() +
                    WindowOf(0, 1U << 30));
    });
    return *wire;
  }

  void Send(Wire& wire, const std::string& bytes, Duration later = {}) {
    loop_.RunIteration([&] { wire.Receive(bytes); }, later);
    Note(wire);
  }

  void Pass(Wire& wire, seconds time) {
    for (; time.count() > 0; --time) loop_.RunIteration({}, seconds(1));
    Note(wire);
  }

  static std::string WindowOf(std::uint32_t stream, std::uint32_t bytes) {
    return Http2Frame{
        .type = Http2Frame::kWindowUpdate, .stream = stream, .payload = test::BigEndian(bytes, 4)}
        .Bytes();
  }

  // A stream that is asked for `size` bytes and stays open.
  static std::string Ask(std::uint32_t stream, std::size_t size) {
    return Http2Frame{.type = Http2Frame::kHeaders,
                      .stream = stream,
                      .payload = test::HeaderBlock(test::RequestHeaders("/t/Source")),
                      .flags = Http2Frame::kEndHeaders}
               .Bytes() +
           AskAgain(stream, size);
  }
  static std::string AskAgain(std::uint32_t stream, std::size_t size) {
    return Http2Frame{.stream = stream, .payload = test::Framed(std::to_string(size))}.Bytes();
  }

  std::optional<int> ResetOf(Wire& wire, std::uint32_t stream) {
    const auto& resets = resets_[&wire];
    const auto found = resets.find(stream);
    return found == resets.end() ? std::nullopt : std::optional(found->second);
  }

  test::ManualLoop loop_;
  SharedState shared_;
  Shard shard_{shared_, loop_, 1, nullptr};

 private:
  void Note(Wire& wire) {
    std::string sent = wire.TakeSent();
    while (const auto frame = Http2Frame::Take(sent)) {
      if (frame->type != Http2Frame::kResetStream) continue;
      resets_[&wire][frame->stream] = static_cast<unsigned char>(frame->payload.back());
    }
  }

  std::map<Wire*, std::map<std::uint32_t, int>> resets_;
};

TEST_F(OutputTest, OpenStream_WindowClosed_ResetInTime) {
  Wire& wire = Connect("a");
  Send(wire, Ask(1, 100));
  Pass(wire, seconds(29));
  EXPECT_EQ(ResetOf(wire, 1), std::nullopt);
  Pass(wire, seconds(2));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
}

TEST_F(OutputTest, OpenStream_WindowClosesLater_ResetInTime) {
  Wire& wire = Connect("a", 1'000);
  Send(wire, Ask(1, 500));
  Pass(wire, seconds(100));
  Send(wire, AskAgain(1, 10'000));
  Pass(wire, seconds(29));
  EXPECT_EQ(ResetOf(wire, 1), std::nullopt);
  Pass(wire, seconds(2));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
}

// There is always something unsent, but no byte for long.
TEST_F(OutputTest, OpenStream_TakenSteadily_Kept) {
  Wire& wire = Connect("a", 1'000);
  Send(wire, Ask(1, 20'000));
  for (int i = 0; i < 100; ++i) {
    Send(wire, WindowOf(1, 1'000) + AskAgain(1, 995), seconds(1));
  }
  EXPECT_GT(shared_.buffered_bytes, 0U);
  EXPECT_EQ(ResetOf(wire, 1), std::nullopt);
}

TEST_F(OutputTest, OpenStream_TakenByteByByte_ResetInTime) {
  Wire& wire = Connect("a");
  Send(wire, Ask(1, 20'000));
  for (int i = 0; i < 31; ++i) Send(wire, WindowOf(1, 1), seconds(1));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
}

TEST_F(OutputTest, Peer_BeyondItsShare_OldestReset) {
  Wire& wire = Connect("a");
  for (std::uint32_t i = 0; i < 5; ++i) Send(wire, Ask(2 * i + 1, kMegabyte));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
  EXPECT_EQ(ResetOf(wire, 9), std::nullopt);
  EXPECT_LE(shared_.buffered_bytes, 3 * kMegabyte) << "three quarters";
}

TEST_F(OutputTest, Peer_BeyondItsShare_OthersStillServed) {
  Wire& greedy = Connect("a");
  Wire& second = Connect("a");
  Wire& modest = Connect("b");
  for (std::uint32_t i = 0; i < 5; ++i) Send(greedy, Ask(2 * i + 1, kMegabyte));
  Send(modest, Ask(1, kMegabyte / 2));
  EXPECT_EQ(ResetOf(modest, 1), std::nullopt);
  Send(second, Ask(1, kMegabyte));
  EXPECT_EQ(ResetOf(second, 1), kCancel) << "another connection of the same peer";
}

class LargeOutputTest : public OutputTest {
 protected:
  LargeOutputTest() : OutputTest(1'000 * kMegabyte) {}
};

TEST_F(LargeOutputTest, Connection_BeyondItsLimit_OldestReset) {
  Wire& wire = Connect("a");
  for (std::uint32_t i = 0; i < 30; ++i) Send(wire, Ask(2 * i + 1, kMegabyte));
  EXPECT_EQ(ResetOf(wire, 1), kCancel);
  EXPECT_EQ(ResetOf(wire, 59), std::nullopt);
  EXPECT_LE(shared_.buffered_bytes, MessageMemory::kMaxBytes);
}

}  // namespace
}  // namespace sluice::rpc::http2
