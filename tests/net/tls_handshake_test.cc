// Accepted and rejected handshakes and their errors, with OpenSSL's client and Sluice's.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/tls_connection.h"

namespace sluice::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(TlsTransport, Handshake_InEachVersion_CarriesBytesBothWays) {
  const auto context = Load(ServerOptions());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const SocketKind kind : {SocketKind::kTcp, SocketKind::kUnix}) {
      TlsConnection connection(*context, {.ca = Certs().authority.path(), .version = version},
                               kind);
      ASSERT_EQ(connection.client.Handshake(), "");
      EXPECT_EQ(connection.client.version(), version == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3");
      ASSERT_TRUE(connection.client.Send("question"));
      EXPECT_TRUE(connection.Eventually([&] { return connection.server.received == "question"; }));
      connection.Send("answer");
      EXPECT_EQ(connection.client.Read(6), "answer");
      EXPECT_TRUE(connection.peer().tls);
      EXPECT_THAT(connection.peer().identities, IsEmpty());
      EXPECT_THAT(connection.peer().address,
                  kind == SocketKind::kTcp ? StartsWith("127.0.0.1:") : StartsWith("unix"));
    }
  }
}

TEST(TlsTransport, OldVersions_AreRefused) {
  const auto context = Load(ServerOptions());
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION}) {
    TlsConnection connection(*context, {.version = version});
    EXPECT_THAT(connection.client.Handshake(), HasSubstr("alert protocol version"));
    EXPECT_EQ(connection.ServerError(), "TLS handshake: unsupported protocol");
  }
}

TEST(TlsTransport, BytesThatAreNotTls_CloseTheConnectionWithTheCause) {
  const auto context = Load(ServerOptions());
  TlsConnection http(*context);
  http.client.socket().Send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(http.ServerError(), "TLS handshake: http request");
  TlsConnection noise(*context);
  noise.client.socket().Send(std::string(100, 'x'));
  EXPECT_EQ(noise.ServerError(), "TLS handshake: wrong version number");
  EXPECT_EQ(noise.io.Run([&] { return noise.server.received; }), "");
}

TEST(TlsTransport, ClientThatTrustsAnotherAuthority_SendsAnAlert) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context, {.ca = Certs().stranger.path()});
  EXPECT_EQ(connection.client.Handshake(), "certificate verify failed");
  EXPECT_THAT(connection.ServerError(), HasSubstr("alert unknown ca"));
}

TEST(TlsTransport, ExpiredServerCertificate_IsRefusedByTheClient) {
  TlsServerContext::Options options = ServerOptions();
  options.paths.certificate_chain = Certs().expired.chain;
  options.paths.private_key = Certs().expired.key;
  const auto context = Load(options);
  TlsConnection connection(*context, {.ca = Certs().authority.path()});
  EXPECT_EQ(connection.client.Handshake(), "certificate verify failed");
  EXPECT_THAT(connection.ServerError(), HasSubstr("alert certificate expired"));
}

TEST(TlsTransport, ClientCertificate_Right_NamesThePeer) {
  const auto context = Load(MutualOptions());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsConnection connection(
        *context,
        {.ca = Certs().authority.path(), .certificate = Certs().client, .version = version});
    ASSERT_EQ(connection.client.Handshake(), "");
    ASSERT_TRUE(connection.client.Send("x"));
    ASSERT_TRUE(connection.Eventually([&] { return !connection.server.received.empty(); }));
    EXPECT_THAT(connection.peer().identities, ElementsAre("dns:client.test", "uri:spiffe://test/a",
                                                          "email:a@test", "ip:192.0.2.7"));
  }
}

// The certificate has an IP address of one byte. The bytes that follow it in memory must not become
// part of a name.
TEST(TlsTransport, ClientCertificate_WithAnInvalidAddress_AddressIsNoIdentity) {
  const auto client = Certs().authority.Issue(
      {.name = "odd", .alternative_names = "DER:30:08:87:01:0a:82:03:61:2e:62"});
  const auto context = Load(MutualOptions());
  TlsConnection connection(*context, {.ca = Certs().authority.path(), .certificate = client});
  ASSERT_EQ(connection.client.Handshake(), "");
  ASSERT_TRUE(connection.client.Send("x"));
  ASSERT_TRUE(connection.Eventually([&] { return !connection.server.received.empty(); }));
  EXPECT_THAT(connection.peer().identities, ElementsAre("dns:a.b"));
}

TEST(TlsTransport, ClientCertificate_MissingOrWrong_IsRefused) {
  const auto context = Load(MutualOptions());
  struct Case {
    test::Certificate certificate;
    std::string server_error;
    std::string client_error;
  };
  for (const auto& [certificate, server_error, client_error] : std::vector<Case>{
           {{}, "peer did not return a certificate", "alert certificate required"},
           {Certs().unknown_client, "certificate verify failed", "alert unknown ca"},
           {Certs().expired, "certificate verify failed (certificate has expired)",
            "alert certificate expired"},
       }) {
    TlsConnection connection(*context, {.certificate = certificate, .version = TLS1_3_VERSION});
    // In TLS 1.3, the client ends the handshake before the server has checked the certificate.
    EXPECT_EQ(connection.client.Handshake(), "");
    EXPECT_EQ(connection.client.Read(1), "");
    EXPECT_THAT(connection.client.error(), HasSubstr(client_error));
    EXPECT_THAT(connection.ServerError(), StartsWith("TLS handshake: " + server_error));
    EXPECT_EQ(connection.io.Run([&] { return connection.server.takes; }), 0);
    TlsConnection older(*context, {.certificate = certificate, .version = TLS1_2_VERSION});
    EXPECT_NE(older.client.Handshake(), "");
    EXPECT_THAT(older.ServerError(), StartsWith("TLS handshake: " + server_error));
  }
}

TEST(TlsTransport, Alpn_ChoosesASupportedProtocolOrRefuses) {
  const auto context = Load(ServerOptions());
  for (const bool required : {false, true}) {
    const auto connect = [&](const std::string& offered) {
      return std::make_unique<TlsConnection>(*context, TlsClientOptions{.alpn = offered},
                                             SocketKind::kTcp,
                                             Alpn{.protocol = "\x02h2", .required = required});
    };
    const auto both = connect("\x08http/1.1\x02h2");
    EXPECT_EQ(both->client.Handshake(), "");
    EXPECT_EQ(both->client.alpn(), "h2");
    const auto other = connect("\x08http/1.1");
    EXPECT_THAT(other->client.Handshake(), HasSubstr("alert no application protocol"));
    EXPECT_EQ(other->ServerError(), "TLS handshake: no application protocol");
    const std::string error = connect("")->client.Handshake();
    if (required) {
      EXPECT_THAT(error, HasSubstr("alert no application protocol"));
    } else {
      EXPECT_EQ(error, "");
    }
  }
}

TEST(TlsTransport, ConnectionCutInTheHandshake_IsLost) {
  const auto context = Load(ServerOptions());
  TlsConnection at_once(*context);
  at_once.client.socket().Close();
  EXPECT_EQ(at_once.ServerError(), "TLS handshake: closed by the peer");
  TlsConnection in_the_middle(*context);
  in_the_middle.client.socket().Send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));
  in_the_middle.client.socket().Reset();
  EXPECT_EQ(in_the_middle.ServerError(), "TLS handshake: Connection reset by peer");
}

TEST(TlsTransport, Renegotiation_IsRefused) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context, {.version = TLS1_2_VERSION});
  ASSERT_EQ(connection.client.Handshake(), "");
  ASSERT_EQ(1, SSL_renegotiate(connection.client.ssl()));
  EXPECT_NE(1, SSL_do_handshake(connection.client.ssl()));
}

TEST(TlsTransport, SilentPeer_IsLostWhenTheHandshakeTakesTooLong) {
  TlsServerContext::Options options = ServerOptions();
  options.handshake_time = 30ms;
  const auto context = Load(options);
  TlsConnection connection(*context);
  EXPECT_EQ(connection.ServerError(), "TLS handshake: not done in time");
  options.handshake_time = 10s;
  EXPECT_EQ(TlsServerContext::Options().handshake_time, options.handshake_time);
}

TEST(TlsTransport, RenewedCertificate_IsUsedByNewConnections_OldOnesContinue) {
  const test::TempDir dir;
  const auto copy = [&](const test::Certificate& from) {
    constexpr auto kReplace = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(from.chain, dir.path() / "chain.pem", kReplace);
    std::filesystem::copy_file(from.key, dir.path() / "key.pem", kReplace);
  };
  copy(Certs().server);
  TlsServerContext::Options options = ServerOptions();
  options.paths.certificate_chain = dir.path() / "chain.pem";
  options.paths.private_key = dir.path() / "key.pem";
  const auto context = Load(options);
  TlsConnection old(*context);
  ASSERT_EQ(old.client.Handshake(), "");

  copy(Certs().client);
  ASSERT_TRUE(context->Reload());
  TlsConnection fresh(*context);
  ASSERT_EQ(fresh.client.Handshake(), "");
  EXPECT_NE(fresh.client.server_serial(), old.client.server_serial());
  old.Send("still here");
  EXPECT_EQ(old.client.Read(10), "still here");
}

TEST(TlsTransport, ManyHandshakesAtOnce_AllSucceed) {
  constexpr int kClients = 40;
  const auto context = Load(ServerOptions());
  OneIoThread io;
  std::vector<std::unique_ptr<TestProtocol>> protocols;
  std::vector<BlockingSocket> peers;
  io.Run([&] {
    for (int i = 0; i < kClients; ++i) {
      auto [ours, peer] = ConnectedPair(SocketKind::kUnix);
      peers.push_back(std::move(peer));
      auto& protocol = *protocols.emplace_back(std::make_unique<TestProtocol>());
      protocol.output = "hello";
      protocol.transport =
          AcceptTls(io.loop(), io.loop().Adopt(std::move(ours), FlushStage::kCallers), *context);
      protocol.transport->Start(protocol);
    }
  });
  {
    std::vector<std::jthread> threads;
    for (auto& peer : peers) {
      threads.emplace_back([socket = std::move(peer)]() mutable {
        TlsClient client(std::move(socket), {});
        EXPECT_EQ(client.Handshake(), "");
        EXPECT_EQ(client.Read(5), "hello");
      });
    }
  }
  io.Run([&] { protocols.clear(); });
}

class TlsTransport_OurClient : public ::testing::Test {
 protected:
  // Why the client's side was closed; empty if the client received the server's output.
  std::string Error(const TlsFiles& files, const std::string& server_name) {
    const auto server_context = Load(MutualOptions());
    const auto client_context = TlsClientContext::Load(files).value();
    auto [ours, peer] = ConnectedPair(SocketKind::kUnix);
    fcntl(peer.fd(), F_SETFL, O_NONBLOCK);
    OneIoThread io;
    TestProtocol server;
    TestProtocol client;
    server.output = "hello";
    io.Run([&, &socket = ours, &other = peer] {
      EpollLoop& loop = io.loop();
      server.transport =
          AcceptTls(loop, loop.Adopt(std::move(socket), FlushStage::kCallers), *server_context);
      server.transport->Start(server);
      client.transport = ConnectTls(loop, loop.Adopt(Socket(dup(other.fd())), FlushStage::kStore),
                                    *client_context, server_name);
      client.transport->Start(client);
    });
    EXPECT_TRUE(test::WaitUntil(
        15s, [&] { return io.Run([&] { return client.received == "hello" || client.lost(); }); }));
    return io.Run([&] {
      server.transport.reset();
      client.transport.reset();
      return client.lost() ? client.causes.back() : "";
    });
  }
};

TEST_F(TlsTransport_OurClient, VerifiesTheServerAndItsName) {
  const TlsFiles right{.certificate_chain = Certs().client.chain,
                       .private_key = Certs().client.key,
                       .ca = Certs().authority.path()};
  EXPECT_EQ(Error(right, "localhost"), "");
  EXPECT_EQ(Error(right, "127.0.0.1"), "");
  EXPECT_EQ(Error(right, "redis.test"),
            "TLS handshake: certificate verify failed (hostname mismatch)");
  EXPECT_EQ(Error(right, "127.0.0.2"),
            "TLS handshake: certificate verify failed (IP address mismatch)");
  TlsFiles stranger = right;
  stranger.ca = Certs().stranger.path();
  EXPECT_THAT(Error(stranger, "localhost"), StartsWith("TLS handshake: certificate verify failed"));
  EXPECT_THAT(Error({.certificate_chain = {}, .private_key = {}, .ca = right.ca}, "localhost"),
              HasSubstr("alert certificate required"));
}

}  // namespace
}  // namespace sluice::net
