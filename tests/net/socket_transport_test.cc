// A transport on unix and TCP sockets. The test is the peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/net/test_protocol.h"
#include "tests/support/wait_until.h"

namespace sluice::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Closure = Protocol::Closure;

// Varied bytes: if some are lost or swapped, a comparison fails.
std::string Pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2'654'435'761U >> 13U);
  return bytes;
}

class SocketTransport_Test : public ::testing::TestWithParam<SocketKind> {
 protected:
  SocketTransport_Test() : SocketTransport_Test(ConnectedPair(GetParam())) {}
  explicit SocketTransport_Test(std::pair<Socket, BlockingSocket> pair)
      : peer_(std::move(pair.second)) {
    io_.Run([&] {
      protocol_.transport = io_.loop().Adopt(std::move(pair.first), FlushStage::kCallers);
    });
  }
  ~SocketTransport_Test() override {
    io_.Run([&] { protocol_.transport.reset(); });
  }

  void Start() {
    io_.Run([&] { protocol_.transport->Start(protocol_); });
  }

  void Send(std::string_view bytes) {
    io_.Run([&] {
      protocol_.output += bytes;
      protocol_.transport->RequestFlush();
    });
  }

  template <typename Condition>
  bool Eventually(const Condition& condition) {
    return test::WaitUntil(10s, [&] { return io_.Run(condition); });
  }

  OneIoThread io_;
  TestProtocol protocol_;
  BlockingSocket peer_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, SocketTransport_Test,
                         ::testing::Values(SocketKind::kUnix, SocketKind::kTcp),
                         [](const auto& kind) {
                           return kind.param == SocketKind::kUnix ? "Unix" : "Tcp";
                         });

TEST_P(SocketTransport_Test, Echo_ReturnsWhatWasSent) {
  protocol_.on_receive = [&](std::string_view bytes) {
    protocol_.output += bytes;
    protocol_.transport->RequestFlush();
  };
  Start();
  for (const std::size_t size : {1U, 100U, 4'000U}) {
    const std::string sent = Pattern(size);
    peer_.Send(sent);
    EXPECT_EQ(peer_.Read(size), sent);
  }
}

TEST_P(SocketTransport_Test, Peer_IsNamed) {
  const std::string address = protocol_.transport->peer().address;
  if (GetParam() == SocketKind::kUnix) {
    EXPECT_EQ(address, "unix");
  } else {
    EXPECT_THAT(address, ::testing::StartsWith("127.0.0.1:"));
  }
  EXPECT_FALSE(protocol_.transport->peer().tls);
}

TEST_P(SocketTransport_Test, OneIteration_ReadsAtMostKReadBytes) {
  const std::string sent = Pattern(200'000);
  std::size_t turn_bytes = 0;
  std::size_t most = 0;
  SteadyTime turn{};
  protocol_.on_receive = [&](std::string_view bytes) {
    turn_bytes = turn == io_.loop().now() ? turn_bytes + bytes.size() : bytes.size();
    turn = io_.loop().now();
    most = std::max(most, turn_bytes);
  };
  Start();
  peer_.Send(sent);
  EXPECT_TRUE(Eventually([&] { return protocol_.received.size() == sent.size(); }));
  EXPECT_EQ(protocol_.received, sent);
  EXPECT_LE(most, Transport::kReadBytes);
}

TEST_P(SocketTransport_Test, PeerThatDoesNotRead_UnsentBytesAreBounded) {
  Start();
  const std::string sent = Pattern(8'000'000);
  Send(sent);
  ASSERT_TRUE(Eventually([&] { return protocol_.transport->unsent() > 0; }));
  const auto [takes, unsent] =
      io_.Run([&] { return std::pair(protocol_.takes, protocol_.transport->unsent()); });
  EXPECT_LE(unsent, Transport::kFlushBytes);
  for (int i = 0; i < 10; ++i) Send("x");
  EXPECT_EQ(io_.Run([&] { return protocol_.takes; }), takes)
      << "took output although bytes were unsent";
  EXPECT_EQ(io_.Run([&] { return protocol_.drains; }), 0);

  EXPECT_EQ(peer_.Read(sent.size() + 10), sent + std::string(10, 'x'));
  EXPECT_TRUE(Eventually([&] { return protocol_.drains > 0; }));
  EXPECT_EQ(io_.Run([&] { return protocol_.transport->unsent(); }), 0U);
}

TEST_P(SocketTransport_Test, SetReading_HoldsBytesBackUntilReadingContinues) {
  Start();
  io_.Run([&] { protocol_.transport->SetReading(false); });
  peer_.Send("held");
  for (int i = 0; i < 5; ++i) io_.Run([] {});
  EXPECT_EQ(io_.Run([&] { return protocol_.received; }), "");
  io_.Run([&] { protocol_.transport->SetReading(true); });
  EXPECT_TRUE(Eventually([&] { return protocol_.received == "held"; }));
}

TEST_P(SocketTransport_Test, SetReading_BeforeStart_HoldsBytesBack) {
  io_.Run([&] { protocol_.transport->SetReading(false); });
  Start();
  peer_.Send("held");
  for (int i = 0; i < 5; ++i) io_.Run([] {});
  EXPECT_EQ(io_.Run([&] { return protocol_.received; }), "");
}

TEST_P(SocketTransport_Test, HalfCloseByThePeer_AnswersAreStillSent) {
  Start();
  peer_.Send("question");
  peer_.FinishSending();
  ASSERT_TRUE(Eventually([&] { return !protocol_.closures.empty(); }));
  EXPECT_THAT(io_.Run([&] { return protocol_.closures; }), ElementsAre(Closure::kEndOfInput));
  EXPECT_EQ(io_.Run([&] { return protocol_.received; }), "question");
  Send("answer");
  EXPECT_EQ(peer_.Read(6), "answer");
  peer_.Close();
}

TEST_P(SocketTransport_Test, FinishSending_SendsTheRestThenEnds) {
  Start();
  const std::string sent = Pattern(1'000'000);
  io_.Run([&] {
    protocol_.output = sent;
    protocol_.transport->FinishSending();
  });
  EXPECT_EQ(peer_.ReadAll(), sent);
  peer_.Send("still heard");
  EXPECT_TRUE(Eventually([&] { return protocol_.received == "still heard"; }));
}

TEST_P(SocketTransport_Test, FinishSending_BeforeStart_Ends) {
  io_.Run([&] { protocol_.transport->FinishSending(); });
  Start();
  EXPECT_EQ(peer_.ReadAll(), "");
}

TEST_P(SocketTransport_Test, BothSidesFinished_ConnectionIsLost) {
  Start();
  io_.Run([&] { protocol_.transport->FinishSending(); });
  peer_.FinishSending();
  EXPECT_TRUE(Eventually([&] { return protocol_.lost(); }));
  EXPECT_THAT(io_.Run([&] { return protocol_.closures; }),
              ElementsAre(Closure::kEndOfInput, Closure::kLost));
}

TEST_P(SocketTransport_Test, PeerGoneWhileNothingIsRead_ConnectionIsLostWithoutReceive) {
  Start();
  io_.Run([&] { protocol_.transport->SetReading(false); });
  peer_.Send("unread");
  GetParam() == SocketKind::kTcp ? peer_.Reset() : peer_.Close();
  EXPECT_TRUE(Eventually([&] { return protocol_.lost(); }));
  EXPECT_EQ(io_.Run([&] { return protocol_.received; }), "");
}

TEST_P(SocketTransport_Test, PeerGoneWhileBytesAreUnsent_ConnectionIsLost) {
  Start();
  Send(Pattern(8'000'000));
  ASSERT_TRUE(Eventually([&] { return protocol_.transport->unsent() > 0; }));
  peer_.Close();
  EXPECT_TRUE(Eventually([&] { return protocol_.lost(); }));
}

TEST_P(SocketTransport_Test, CloseInReceive_EndsCallbacks) {
  protocol_.on_receive = [&](std::string_view) { protocol_.transport.reset(); };
  Start();
  peer_.Send("x");
  EXPECT_EQ(peer_.ReadAll(), "");
  EXPECT_TRUE(io_.Run([&] { return protocol_.closures.empty(); }));
}

TEST_P(SocketTransport_Test, CloseInTakeOutput_SendsNothing) {
  protocol_.on_take = [&](std::string& out) {
    out += "not sent";
    protocol_.transport.reset();
  };
  Start();
  io_.Run([&] { protocol_.transport->RequestFlush(); });
  EXPECT_EQ(peer_.ReadAll(), "");
  EXPECT_EQ(io_.Run([&] { return protocol_.takes; }), 1);
}

TEST_P(SocketTransport_Test, CloseInOnClosed_IsAllowed) {
  protocol_.on_closed = [&] { protocol_.transport.reset(); };
  Start();
  peer_.FinishSending();
  EXPECT_EQ(peer_.ReadAll(), "");
  EXPECT_THAT(io_.Run([&] { return protocol_.closures; }), ElementsAre(Closure::kEndOfInput));
}

TEST_P(SocketTransport_Test, CloseWithRequestedFlush_TakesNothing) {
  Start();
  io_.Run([&] {
    protocol_.transport->RequestFlush();
    protocol_.transport.reset();
  });
  EXPECT_EQ(peer_.ReadAll(), "");
  EXPECT_EQ(io_.Run([&] { return protocol_.takes; }), 0);
}

// If a flush had no limit, a peer that reads as fast as the transport writes would starve all other
// connections. Here, the kernel has room for megabytes.
TEST(SocketTransport_OnTcp, EndlessOutput_DoesNotStarveOthers) {
  auto [ours, peer] = ConnectedPair(SocketKind::kTcp, 0);
  OneIoThread io;
  TestProtocol protocol;
  SteadyTime turn{};
  int takes = 0;
  int most_takes = 0;
  protocol.on_take = [&](std::string& out) {
    takes = turn == io.loop().now() ? takes + 1 : 1;
    turn = io.loop().now();
    most_takes = std::max(most_takes, takes);
    out.append(Transport::kFlushBytes, 'x');
  };
  io.Run([&, &socket = ours] {
    protocol.transport = io.loop().Adopt(std::move(socket), FlushStage::kCallers);
    protocol.transport->Start(protocol);
    protocol.transport->RequestFlush();
  });
  EXPECT_EQ(peer.Read(5'000'000).size(), 5'000'000U) << "output continues in later iterations";
  io.Run([&] { protocol.transport.reset(); });
  EXPECT_GE(most_takes, 2);
  EXPECT_LE(most_takes, 5);  // the fifth output is sent in the next iteration
}

TEST(SocketTransport_OnTcp, Reset_ConnectionIsLost_CauseIsReported) {
  auto [ours, peer] = ConnectedPair(SocketKind::kTcp);
  OneIoThread io;
  TestProtocol protocol;
  io.Run([&, &socket = ours] {
    protocol.transport = io.loop().Adopt(std::move(socket), FlushStage::kCallers);
    protocol.transport->Start(protocol);
  });
  peer.Reset();
  EXPECT_TRUE(test::WaitUntil(10s, [&] { return io.Run([&] { return protocol.lost(); }); }));
  EXPECT_THAT(io.Run([&] { return protocol.causes; }), ElementsAre("Connection reset by peer"));
  io.Run([&] { protocol.transport.reset(); });
}

}  // namespace
}  // namespace sluice::net
