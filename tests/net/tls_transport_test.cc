// Data and the end of connections on a TLS transport, with OpenSSL's client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/tls_connection.h"
#include "tests/support/manual_loop.h"

namespace sluice::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Closure = Protocol::Closure;

TEST(TlsTransport, BigTransfers_ThroughSmallBuffers_ArriveWhole) {
  const auto context = Load(ServerOptions());
  const std::string down = Pattern(3'000'000);
  const std::string up = Pattern(2'000'001);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsConnection connection(*context, {.version = version});
    ASSERT_EQ(connection.client.Handshake(), "");
    connection.Send(down);
    EXPECT_EQ(connection.client.Read(down.size()), down);
    EXPECT_TRUE(connection.client.Send(up));
    EXPECT_TRUE(
        connection.Eventually([&] { return connection.server.received.size() == up.size(); }));
    EXPECT_TRUE(connection.io.Run([&] { return connection.server.received == up; }));
    EXPECT_LE(connection.io.Run([&] { return connection.server.largest_receive; }),
              Transport::kReadBytes);
    EXPECT_EQ(connection.io.Run([&] { return connection.server.transport->unsent(); }), 0U);
  }
}

TEST(TlsTransport, PeerThatDoesNotRead_UnsentBytesAreBounded) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context);
  ASSERT_EQ(connection.client.Handshake(), "");
  const std::string sent = Pattern(4'000'000);
  connection.Send(sent);
  ASSERT_TRUE(connection.Eventually([&] { return connection.server.transport->unsent() > 0; }));
  EXPECT_LE(connection.io.Run([&] { return connection.server.transport->unsent(); }),
            Transport::kFlushBytes + 1'000);
  EXPECT_EQ(connection.client.Read(sent.size()), sent);
  EXPECT_TRUE(connection.Eventually([&] { return connection.server.drains > 0; }));
}

TEST(TlsTransport, OutputBeforeTheHandshake_IsSentAfterIt) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context);
  connection.Send("early");
  EXPECT_EQ(connection.io.Run([&] { return connection.server.takes; }), 0);
  ASSERT_EQ(connection.client.Handshake(), "");
  EXPECT_EQ(connection.client.Read(5), "early");
}

// A server's and a client's transport on one loop. The test delivers the bytes between them.
class TlsPair {
 public:
  TlsPair() {
    loop_.RunIteration([&] {
      server.transport = AcceptTls(loop_, NewWire(server_wire_), *server_context_);
      client.transport = ConnectTls(loop_, NewWire(client_wire_), *client_context_, "localhost");
      server.transport->Start(server);
      client.transport->Start(client);
    });
  }

  // Delivers all bytes in flight. Returns the number of additional iterations for posted tasks.
  int Deliver() {
    int extra = 0;
    for (bool any = true; any;) {
      const std::string up = client_wire_->TakeSent();
      const std::string down = server_wire_->TakeSent();
      any = !up.empty() || !down.empty();
      loop_.RunIteration([&] {
        if (!up.empty()) server_wire_->Receive(up);
        if (!down.empty()) client_wire_->Receive(down);
      });
      extra += loop_.RunUntilIdle();
    }
    return extra;
  }

  void Send(std::string_view bytes) {
    loop_.RunIteration([&] {
      client.output += bytes;
      client.transport->RequestFlush();
    });
  }

 private:
  TransportPtr NewWire(test::ManualLoop::Wire*& wire) {
    wire = new test::ManualLoop::Wire(loop_, FlushStage::kCallers);
    return TransportPtr(wire, TransportDeleter{.loop = &loop_});
  }

  test::ManualLoop loop_;
  const std::unique_ptr<TlsServerContext> server_context_ = Load(ServerOptions());
  const std::unique_ptr<TlsClientContext> client_context_ =
      TlsClientContext::Load({.ca = Certs().authority.path()}).value();
  test::ManualLoop::Wire* server_wire_ = nullptr;
  test::ManualLoop::Wire* client_wire_ = nullptr;

 public:
  TestProtocol server;
  TestProtocol client;
};

// Protocols call SetReading after each input.
TEST(TlsTransport, SetReading_WithoutAChange_NeedsNoFurtherIteration) {
  TlsPair pair;
  pair.Deliver();
  pair.server.on_receive = [&](std::string_view) { pair.server.transport->SetReading(true); };
  pair.Send("a request");
  EXPECT_EQ(pair.Deliver(), 0);
  EXPECT_EQ(pair.server.received, "a request");
}

TEST(TlsTransport, SetReading_HoldsBackReceivedAndLaterBytes) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context);
  connection.io.Run([&] {
    connection.server.on_receive = [&](std::string_view) {
      connection.server.transport->SetReading(false);
    };
  });
  ASSERT_EQ(connection.client.Handshake(), "");
  const std::string sent = Pattern(100'000);
  std::jthread sender([&] { EXPECT_TRUE(connection.client.Send(sent)); });
  std::size_t before = 0;
  int steps = 0;
  for (; before < sent.size() && steps < 1'000; ++steps) {
    ASSERT_TRUE(connection.Eventually([&] { return connection.server.received.size() > before; }));
    before = connection.io.Run([&] { return connection.server.received.size(); });
    for (int i = 0; i < 3; ++i) connection.io.Run([] {});
    ASSERT_EQ(connection.io.Run([&] { return connection.server.received.size(); }), before);
    connection.io.Run([&] { connection.server.transport->SetReading(true); });
  }
  EXPECT_GE(steps, 7);
  EXPECT_TRUE(connection.io.Run([&] { return connection.server.received == sent; }));
}

// The socket's input ends while earlier input is still buffered. The transport must process the
// buffered input before the loop reports the end.
TEST(TlsTransport, SetReading_AfterThePeersEnd_LosesNothing) {
  const auto context = Load(ServerOptions());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsConnection connection(*context, {.version = version});
    connection.io.Run([&] {
      connection.server.on_receive = [&](std::string_view) {
        connection.server.transport->SetReading(false);
      };
    });
    ASSERT_EQ(connection.client.Handshake(), "");
    connection.io.Run([&] {  // on the loop's thread, so that all bytes arrive in one iteration
      EXPECT_TRUE(connection.client.Send("first "));
      EXPECT_TRUE(connection.client.Send("second"));
      connection.client.Finish();
      connection.client.socket().FinishSending();
    });
    ASSERT_TRUE(connection.Eventually([&] { return connection.server.received == "first "; }));
    connection.io.Run([&] { connection.server.transport->SetReading(true); });
    EXPECT_TRUE(
        connection.Eventually([&] { return connection.server.received == "first second"; }));
    connection.io.Run([&] { connection.server.transport->SetReading(true); });
    EXPECT_TRUE(connection.Eventually([&] { return !connection.server.closures.empty(); }));
    EXPECT_THAT(connection.io.Run([&] { return connection.server.closures; }),
                ElementsAre(Closure::kEndOfInput));
  }
}

TEST(TlsTransport, ByteByByte_HandshakeAndDataWork) {
  const auto context = Load(MutualOptions());
  auto [relayed, peer] = ConnectedPair(SocketKind::kUnix);
  BlockingSocket relay_in(std::move(relayed));
  TlsConnection connection(*context, {.certificate = Certs().client}, SocketKind::kUnix);
  // The relay forwards the bytes between the client and the server one by one.
  BlockingSocket to_server(Socket(dup(connection.client.socket().fd())));
  TlsClient client(std::move(peer), {.certificate = Certs().client});
  std::jthread up([&] {
    for (std::string byte; !(byte = relay_in.Read(1)).empty();) to_server.SendAll(byte);
  });
  std::jthread down([&] {
    for (std::string byte; !(byte = to_server.Read(1)).empty();) relay_in.SendAll(byte);
  });
  EXPECT_EQ(client.Handshake(), "");
  EXPECT_TRUE(client.Send("question"));
  EXPECT_TRUE(connection.Eventually([&] { return connection.server.received == "question"; }));
  connection.Send("answer");
  EXPECT_EQ(client.Read(6), "answer");
  client.socket().FinishSending();
  connection.io.Run([&] { connection.server.transport.reset(); });
}

TEST(TlsTransport, FinishSending_SendsCloseNotifyAfterTheRest) {
  const auto context = Load(ServerOptions());
  for (const bool before_handshake : {false, true}) {
    TlsConnection connection(*context);
    const std::string sent = Pattern(300'000);
    const auto finish = [&] {
      connection.server.output = sent;
      connection.server.transport->FinishSending();
    };
    if (before_handshake) connection.io.Run(finish);
    ASSERT_EQ(connection.client.Handshake(), "");
    if (!before_handshake) connection.io.Run(finish);
    EXPECT_EQ(connection.client.Read(sent.size()), sent);
    EXPECT_TRUE(connection.client.ReadsEnd());
    EXPECT_EQ(connection.client.socket().Read(1), "");  // the socket has ended, too
    ASSERT_TRUE(connection.client.Send("still heard"));
    EXPECT_TRUE(connection.Eventually([&] { return connection.server.received == "still heard"; }));
  }
}

TEST(TlsTransport, HalfCloseByThePeer_AnswersAreStillSent) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context);
  ASSERT_EQ(connection.client.Handshake(), "");
  ASSERT_TRUE(connection.client.Send("question"));
  connection.client.Finish();
  connection.client.socket().FinishSending();
  ASSERT_TRUE(connection.Eventually([&] { return !connection.server.closures.empty(); }));
  connection.Send("answer");
  EXPECT_EQ(connection.client.Read(6), "answer");
  EXPECT_THAT(connection.io.Run([&] { return connection.server.closures; }),
              ElementsAre(Closure::kEndOfInput));
}

TEST(TlsTransport, EndWithoutCloseNotify_ConnectionIsLost) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context);
  ASSERT_EQ(connection.client.Handshake(), "");
  connection.client.socket().FinishSending();
  EXPECT_EQ(connection.ServerError(), "closed by the peer without a TLS close_notify");
}

TEST(TlsTransport, DamagedRecord_ClosesTheConnectionAndNamesTheCause) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context, {.version = TLS1_3_VERSION});
  ASSERT_EQ(connection.client.Handshake(), "");
  connection.client.socket().Send(std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'));
  EXPECT_THAT(connection.ServerError(), StartsWith("TLS: "));
  EXPECT_EQ(connection.client.Read(1), "");
  EXPECT_THAT(connection.client.error(), HasSubstr("alert bad record mac"));
}

TEST(TlsTransport, CloseInEachCallback_IsAllowed) {
  const auto context = Load(ServerOptions());
  for (int where = 0; where < 3; ++where) {
    TlsConnection connection(*context);
    const auto close = [&] { connection.server.transport.reset(); };
    connection.io.Run([&] {
      if (where == 0) connection.server.on_receive = [&](std::string_view) { close(); };
      if (where == 1)
        connection.server.on_take = [&](std::string& out) {
          out += "lost";
          close();
        };
      if (where == 2) connection.server.on_closed = close;
    });
    ASSERT_EQ(connection.client.Handshake(), "");
    if (where == 1) {
      connection.io.Run([&] {
        if (connection.server.transport) connection.server.transport->RequestFlush();
      });
    } else {
      connection.client.Send("x");
      connection.client.Finish();
    }
    EXPECT_TRUE(connection.Eventually([&] { return connection.server.transport == nullptr; }));
    EXPECT_EQ(connection.client.Read(1), "");
  }
}

// An idle connection keeps at most 25 KiB, including what its handshake and its buffers left
// behind.
TEST(TlsTransport, IdleConnections_KeepNoBuffers) {
#ifdef SLUICE_SANITIZED
  GTEST_SKIP() << "sanitizers use their own heap";
#endif
  constexpr int kConnections = 100;
  const auto context = Load(MutualOptions());
  OneIoThread io;
  std::vector<std::unique_ptr<TestProtocol>> protocols;
  std::vector<std::unique_ptr<TlsClient>> clients;
  std::vector<BlockingSocket> peers;
  for (int i = 0; i < kConnections; ++i) {
    auto [ours, peer] = ConnectedPair(SocketKind::kUnix, 256 * 1024);
    auto& protocol = *protocols.emplace_back(std::make_unique<TestProtocol>());
    protocol.on_receive = [&](std::string_view) { protocol.received.clear(); };
    io.Run([&, &socket = ours] {
      protocol.transport =
          AcceptTls(io.loop(), io.loop().Adopt(std::move(socket), FlushStage::kCallers), *context);
      protocol.transport->Start(protocol);
    });
    auto client = std::make_unique<TlsClient>(std::move(peer),
                                              TlsClientOptions{.certificate = Certs().client});
    ASSERT_EQ(client->Handshake(), "");
    ASSERT_TRUE(client->Send(Pattern(20'000)));
    io.Run([&] {
      protocol.output = Pattern(100'000);
      protocol.transport->RequestFlush();
    });
    ASSERT_EQ(client->Read(100'000).size(), 100'000U);
    clients.push_back(std::move(client));
  }
  io.Run([&] {
    for (auto& it : protocols) std::string().swap(it->output);
    for (auto& it : protocols) std::string().swap(it->received);
  });
  const std::size_t before = mallinfo2().uordblks;
  io.Run([&] {
    for (auto& it : protocols) it->transport.reset();
  });
  io.Run([] {});
  const std::size_t freed = before - mallinfo2().uordblks;
  RecordProperty("bytes_per_connection", static_cast<int>(freed / kConnections));
  EXPECT_LE(freed / kConnections, 25U * 1024);
}

}  // namespace
}  // namespace sluice::net
