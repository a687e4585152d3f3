// Redis in each of its topologies, started when a test first asks for it and shared by the tests of
// a program. The user "sluice" may do what docs/redis.md lets it do, no more.
#pragma once

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

// redis-server's arguments for the user "sluice", password "secret", that docs/redis.md advises.
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

class TestTls final : public TestRedis {
 public:
  TestTls() {
    std::vector<std::string> arguments = UserOfTheManual();
    for (const std::string& argument : tls_.arguments()) arguments.push_back(argument);
    server_ = std::make_unique<RedisServer>(
        RedisServer::Options{.tls = true, .arguments = std::move(arguments)});
  }
  std::string url() const override { return "rediss://sluice:secret@" + server_->tcp_address(); }
  void Flush() override { server_->Connect().Text({"FLUSHALL"}); }
  const net::TlsClientContext* tls() const override { return client_.get(); }
  std::string name() const override { return RedisTls::kServerName; }

 private:
  const RedisTls tls_;
  const std::unique_ptr<net::TlsClientContext> client_ =
      net::TlsClientContext::Load({.certificate_chain = tls_.client().chain,
                                   .private_key = tls_.client().key,
                                   .ca = tls_.ca()})
          .value();
  std::unique_ptr<RedisServer> server_;
};

class TestSentinel final : public TestRedis {
 public:
  std::string url() const override { return sentinels_.Url("sluice:secret@"); }
  void Flush() override { sentinels_.master().Connect().Text({"FLUSHALL"}); }

 private:
  RedisSentinels sentinels_{{.arguments = UserOfTheManual()}};
};

class TestCluster final : public TestRedis {
 public:
  std::string url() const override { return cluster_.Url("sluice:secret@"); }
  void Flush() override { cluster_.Flush(); }

 private:
  RedisCluster cluster_{{.replicas = 1, .arguments = UserOfTheManual()}};
};

// On the test's main thread.
inline TestRedis& RedisOfKind(const std::string& kind) {
  static std::map<std::string, std::unique_ptr<TestRedis>> started;
  std::unique_ptr<TestRedis>& redis = started[kind];
  if (redis) return *redis;
  if (kind == "redis") redis = std::make_unique<TestSingle>();
  if (kind == "tls") redis = std::make_unique<TestTls>();
  if (kind == "sentinel") redis = std::make_unique<TestSentinel>();
  if (kind == "cluster") redis = std::make_unique<TestCluster>();
  return *redis;
}

}  // namespace sluice::test
