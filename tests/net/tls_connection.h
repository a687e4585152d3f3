// A TLS server on an io thread, connected to an OpenSSL client.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/tls_transport.h"
#include "tests/net/tls_client.h"
#include "tests/support/certificates.h"
#include "tests/support/wait_until.h"

namespace sluice::net {

inline constexpr const char* kClientNames =
    "DNS:client.test,URI:spiffe://test/a,email:a@test,IP:192.0.2.7";

struct Certificates {
  test::TempDir dir;
  test::Authority authority{dir, "ca"};
  test::Authority stranger{dir, "stranger"};
  test::Certificate server =
      authority.Issue({.name = "server", .alternative_names = "DNS:localhost,IP:127.0.0.1"});
  test::Certificate expired =
      authority.Issue({.name = "expired", .alternative_names = "DNS:localhost", .days = -1});
  test::Certificate client = authority.Issue({.name = "client", .alternative_names = kClientNames});
  test::Certificate unknown_client =
      stranger.Issue({.name = "unknown", .alternative_names = kClientNames});
};

inline const Certificates& Certs() {
  static const Certificates certificates;
  return certificates;
}

inline TlsServerContext::Options ServerOptions() {
  return {.paths = {.certificate_chain = Certs().server.chain,
                    .private_key = Certs().server.key,
                    .ca = {}}};
}

inline TlsServerContext::Options MutualOptions() {
  TlsServerContext::Options options = ServerOptions();
  options.paths.ca = Certs().authority.path();
  return options;
}

inline std::unique_ptr<TlsServerContext> Load(const TlsServerContext::Options& options) {
  return TlsServerContext::Load(options).value();
}

inline std::string Pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2'654'435'761U >> 13U);
  return bytes;
}

// A connection whose server side is a TlsTransport.
class TlsConnection {
 public:
  explicit TlsConnection(TlsServerContext& context, TlsClientOptions options = {},
                         SocketKind kind = SocketKind::kTcp, Alpn alpn = {.protocol = "\x02h2"})
      : TlsConnection(context, std::move(options), ConnectedPair(kind), alpn) {}
  ~TlsConnection() {
    io.Run([&] { server.transport.reset(); });
  }

  template <typename Condition>
  bool Eventually(const Condition& condition) {
    return test::WaitUntil(std::chrono::seconds(15), [&] { return io.Run(condition); });
  }

  // Waits until the server's side is closed, and returns its error.
  std::string ServerError() {
    if (!Eventually([&] { return server.lost(); })) return "the server's side is still open";
    return io.Run([&] { return server.causes.back(); });
  }

  void Send(std::string_view bytes) {
    io.Run([&] {
      server.output += bytes;
      server.transport->RequestFlush();
    });
  }

  Peer peer() {
    return io.Run([&] { return server.transport->peer(); });
  }

  OneIoThread io;
  TestProtocol server;
  TlsClient client;

 private:
  TlsConnection(TlsServerContext& context, TlsClientOptions options,
                std::pair<Socket, BlockingSocket> pair, Alpn alpn)
      : client(std::move(pair.second), options) {
    io.Run([&] {
      auto inner = io.loop().Adopt(std::move(pair.first), FlushStage::kCallers);
      server.transport = AcceptTls(io.loop(), std::move(inner), context, alpn);
      server.transport->Start(server);
    });
  }
};

}  // namespace sluice::net
