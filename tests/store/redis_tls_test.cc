// TLS to Redis: if all certificates are valid, checks are decided. Otherwise, the log has an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/captured_log.h"
#include "tests/support/redis_server.h"
#include "tests/support/redis_tls.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class RedisOverTls : public testing::Test {
 protected:
  RedisOverTls() {
    std::vector<std::string> arguments = tls_.arguments();
    arguments.insert(arguments.end(), {"--requirepass", "open-sesame"});
    server_ = std::make_unique<RedisServer>(
        RedisServer::Options{.tls = true, .arguments = std::move(arguments)});
    threads_.Start();
  }

  net::TlsFiles GoodFiles() const {
    return {.certificate_chain = tls_.client().chain,
            .private_key = tls_.client().key,
            .ca = tls_.ca()};
  }

  // Expects that a store with these files does not become ready. Returns its log.
  std::string LogOfRefused(const net::TlsFiles& files, const std::string& server_name) {
    CapturedLog log;
    const auto tls = net::TlsClientContext::Load(files).value();
    RedisStore store(threads_, Url(), {.tls = tls.get(), .tls_server_name = server_name});
    EXPECT_FALSE(store.WaitUntilReady(milliseconds(300)));
    store.Stop();
    return log.text();
  }

  RedisUrl Url() const {
    return RedisUrl::Parse("rediss://:open-sesame@" + server_->tcp_address()).value();
  }

  const RedisTls tls_;
  std::unique_ptr<RedisServer> server_;
  net::IoThreads threads_{1};
};

TEST_F(RedisOverTls, CertificatesOfOneAuthority_ChecksAreDecided) {
  const auto tls = net::TlsClientContext::Load(GoodFiles()).value();
  RedisStore store(threads_, Url(),
                   {.timeout = seconds(10), .tls = tls.get(), .tls_server_name = "redis.test"});
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  BlockingCheck check({{"sluice:k", FixedWindow{.limit = 1, .window = seconds(60)}}});
  EXPECT_TRUE(check.RunOn(store, threads_.loop(0)).admitted);
  EXPECT_FALSE(check.RunOn(store, threads_.loop(0)).admitted);
}

TEST_F(RedisOverTls, CertificateOfAnotherHost_IsRefused) {
  const std::string log = LogOfRefused(GoodFiles(), "other.test");
  EXPECT_THAT(log, HasSubstr("TLS handshake"));
  EXPECT_THAT(log, Not(HasSubstr("sesame")));
}

TEST_F(RedisOverTls, CertificateOfAnotherAuthority_IsRefused) {
  const RedisTls others;
  net::TlsFiles files = GoodFiles();
  files.ca = others.ca();
  EXPECT_THAT(LogOfRefused(files, RedisTls::kServerName), HasSubstr("TLS handshake"));
}

TEST_F(RedisOverTls, NoClientCertificate_IsRefusedByRedis) {
  EXPECT_THAT(LogOfRefused({.ca = tls_.ca()}, RedisTls::kServerName), HasSubstr("cannot connect"));
}

}  // namespace
}  // namespace sluice::test
