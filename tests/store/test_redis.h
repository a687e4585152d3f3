// Redis in each topology, started on first use and shared by the tests of a program. The user
// "sluice" has exactly the permissions that docs/redis.md lists.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/tls_context.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_sentinels.h"
#include "tests/support/redis_server.h"
#include "tests/support/redis_tls.h"

namespace sluice::test {

// redis-server's arguments for the user "sluice" of docs/redis.md, with the password "secret".
inline std::vector<std::string> UserOfTheManual() {
  std::ifstream manual(SLUICE_SOURCE_DIR "/docs/redis.md");
  std::string word;
  while (manual >> word && word != "SETUSER") {
  }
  std::vector<std::string> arguments{"--user"};
  while (manual >> word && word != "```") arguments.push_back(word);
  return arguments;
}

class TestRedis {
 public:
  virtual ~TestRedis() = default;
  virtual std::string url() const = 0;
  virtual void Flush() = 0;
  // For RedisStore's options.
  virtual const net::TlsClientContext* tls() const { return nullptr; }
  virtual std::string name() const { return {}; }
};

class TestSingle final : public TestRedis {
 public:
  std::string url() const override { return "unix://sluice:secret@" + server_.socket_path(); }
  void Flush() override { server_.Connect().Text({"FLUSHALL"}); }

 private:
  RedisServer server_{{.arguments = UserOfTheManual()}};
};

// Redis with TLS on all connections (also among servers), or without TLS.
class TestTls : public TestRedis {
 public:
  explicit TestTls(bool used) : used_(used) {}
  const net::TlsClientContext* tls() const override { return used_ ? client_.get() : nullptr; }
  std::string name() const override { return RedisTls::kServerName; }

 protected:
  std::vector<std::string> certificates() const {
    return used_ ? tls_.arguments() : std::vector<std::string>();
  }
  std::vector<std::string> arguments() const {
    std::vector<std::string> all = UserOfTheManual();
    for (const std::string& argument : certificates()) all.push_back(argument);
    return all;
  }
  bool used() const { return used_; }

 private:
  const bool used_;
  const RedisTls tls_;
  const std::unique_ptr<net::TlsClientContext> client_ =
      net::TlsClientContext::Load({.certificate_chain = tls_.client().chain,
                                   .private_key = tls_.client().key,
                                   .ca = tls_.ca()})
          .value();
};

class TestTlsServer final : public TestTls {
 public:
  TestTlsServer() : TestTls(true) {}
  std::string url() const override { return "rediss://sluice:secret@" + server_.tcp_address(); }
  void Flush() override { server_.Connect().Text({"FLUSHALL"}); }

 private:
  RedisServer server_{{.tls = true, .arguments = arguments()}};
};

class TestSentinel final : public TestTls {
 public:
  using TestTls::TestTls;
  std::string url() const override { return sentinels_.Url("sluice:secret@"); }
  void Flush() override { sentinels_.master().Connect().Text({"FLUSHALL"}); }

 private:
  RedisSentinels sentinels_{{.tls = certificates(), .arguments = UserOfTheManual()}};
};

class TestCluster final : public TestTls {
 public:
  using TestTls::TestTls;
  std::string url() const override { return cluster_.Url("sluice:secret@"); }
  void Flush() override { cluster_.Flush(); }

 private:
  RedisCluster cluster_{{.tls = used(), .replicas = 1, .arguments = arguments()}};
};

// Stops Redis before the program exits, because OpenSSL must not be used after its cleanup at exit
// has begun.
class RunningRedis final : public testing::Environment {
 public:
  TestRedis& OfKind(const std::string& kind) {
    std::unique_ptr<TestRedis>& redis = started_[kind];
    if (redis) return *redis;
    if (kind == "redis") redis = std::make_unique<TestSingle>();
    if (kind == "tls") redis = std::make_unique<TestTlsServer>();
    if (kind == "sentinel") redis = std::make_unique<TestSentinel>(false);
    if (kind == "tls_sentinel") redis = std::make_unique<TestSentinel>(true);
    if (kind == "cluster") redis = std::make_unique<TestCluster>(false);
    if (kind == "tls_cluster") redis = std::make_unique<TestCluster>(true);
    return *redis;
  }

 private:
  void TearDown() override { started_.clear(); }

  std::map<std::string, std::unique_ptr<TestRedis>> started_;
};

inline RunningRedis& running_redis = *static_cast<RunningRedis*>(
    testing::AddGlobalTestEnvironment(new RunningRedis));  // owned by GoogleTest

// Must be called on the test's main thread.
inline TestRedis& RedisOfKind(const std::string& kind) { return running_redis.OfKind(kind); }

}  // namespace sluice::test
