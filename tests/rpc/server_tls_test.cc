// TLS: certificates of both sides, and certificates that change.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "net/tls_context.h"
#include "rpc/http2/server.h"
#include "tests/rpc/echo_methods.h"
#include "tests/rpc/generic_client.h"
#include "tests/support/certificates.h"

namespace sluice::test {
namespace {

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class ServerTlsTest : public testing::Test {
 protected:
  ServerTlsTest() { threads_.Start(); }
  ~ServerTlsTest() override {
    server_.reset();
    threads_.Stop();
  }

  // `ca`: authorities for callers' certificates. If it is empty, callers need no certificate.
  void Start(const std::string& ca) {
    auto context = net::TlsServerContext::Load(
        {.paths = {.certificate_chain = ours_.chain, .private_key = ours_.key, .ca = ca}});
    ASSERT_TRUE(context) << context.error().message;
    context_ = std::move(*context);
    auto server = rpc::http2::Server::Start(
        threads_, EchoMethods(seen_),
        {.address = {.host = "127.0.0.1", .port = 0, .unix_path = ""}, .tls = context_.get()});
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  // Calls /test.Unary/Identities as a caller that trusts `ca` and presents `certificate`.
  Outcome Ask(const std::string& ca, const Certificate& certificate = {}) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = TextOf(ca);
    if (!certificate.chain.empty()) {
      options.pem_cert_chain = TextOf(certificate.chain);
      options.pem_private_key = TextOf(certificate.key);
    }
    const auto channel = ConnectTo(server_->address().ToString(), grpc::SslCredentials(options));
    return CallUnary(channel, "/test.Unary/Identities", "", {.timeout = std::chrono::seconds(5)});
  }

  TempDir dir_;
  Authority authority_{dir_, "good"};
  Authority other_{dir_, "other"};
  Certificate ours_ = authority_.Issue({.name = "server", .alternative_names = "IP:127.0.0.1"});
  Seen seen_;
  std::unique_ptr<net::TlsServerContext> context_;
  net::IoThreads threads_{1};
  std::unique_ptr<rpc::http2::Server> server_;
};

TEST_F(ServerTlsTest, Call_WithoutACertificate_IsServedEncrypted) {
  Start("");
  EXPECT_EQ(Ask(authority_.path()).response, "tls ");
  EXPECT_EQ(Ask(other_.path()).code, grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTlsTest, ClientCa_Set_OnlyValidCertificatesAreServed) {
  Start(authority_.path());
  const auto good = authority_.Issue(
      {.name = "client",
       .alternative_names = "DNS:shop.test,URI:spiffe://test/shop,IP:192.0.2.7,email:a@test"});
  const auto bad = other_.Issue({.name = "stranger", .alternative_names = "DNS:shop.test"});
  EXPECT_EQ(Ask(authority_.path(), good).response,
            "tls dns:shop.test,uri:spiffe://test/shop,ip:192.0.2.7,email:a@test");
  EXPECT_EQ(Ask(authority_.path(), bad).code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Ask(authority_.path()).code, grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTlsTest, Certificate_Changes_NextConnectionGetsTheNewOne) {
  Start("");
  EXPECT_EQ(Ask(authority_.path()).code, grpc::StatusCode::OK);
  const auto next = other_.Issue({.name = "next", .alternative_names = "IP:127.0.0.1"});
  constexpr auto kReplace = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(next.chain, ours_.chain, kReplace);
  std::filesystem::copy_file(next.key, ours_.key, kReplace);
  EXPECT_TRUE(context_->Reload());
  EXPECT_EQ(Ask(other_.path()).code, grpc::StatusCode::OK);
  EXPECT_EQ(Ask(authority_.path()).code, grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace sluice::test
