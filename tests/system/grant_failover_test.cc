// Units that servers hold when a master dies and its replica takes over.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sluice/v1/rate_limiter.grpc.pb.h"
#include "tests/support/redis_sentinels.h"
#include "tests/support/sluice_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr int kLimit = 1'000;
constexpr char kRules[] = R"(
domain: shop
rules:
  - name: site
    on_store_failure: deny
    limits: [{algorithm: fixed_window, limit: 1000, window: 30d, prefetch: 10s}]
)";
constexpr char kKey[] = "sluice:{shop/site/}:fixed_window:30d";
constexpr int kBytesWithGrants = 28 + 32;

class Server {
 public:
  explicit Server(const std::string& redis_url)
      : process_({.rules = kRules,
                  .redis_url = redis_url,
                  .flags = {"--redis-timeout", "60s"},
                  .environment = {}}),
        stub_(v1::RateLimiter::NewStub(
            grpc::CreateChannel(process_.grpc_address(), grpc::InsecureChannelCredentials()))) {}

  // Sends a check, and counts the check if it is allowed. Returns the answer's source.
  v1::Source Check() {
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    grpc::ClientContext context;
    v1::CheckLimitResponse response;
    const grpc::Status status = stub_->CheckLimit(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    allowed += response.decision() == v1::DECISION_ALLOWED ? 1 : 0;
    return response.source();
  }

  // Sends checks until one is decided by a grant.
  void Warm() {
    for (int i = 0; i < 100; ++i) {
      if (Check() == v1::SOURCE_GRANT) return;
    }
    ADD_FAILURE() << "no check was decided by a grant";
  }

  int allowed = 0;

 private:
  SluiceServer process_;
  const std::unique_ptr<v1::RateLimiter::Stub> stub_;
};

// The new master has the grants of the servers. So each unit that a server returns is given back
// once, and the servers admit no more than the limit.
TEST(GrantFailover, MasterDies_NewMasterHasTheGrantsAndTheLimitHolds) {
  RedisSentinels redis({});
  Server servers[] = {Server(redis.Url()), Server(redis.Url())};
  for (Server& server : servers) server.Warm();
  RedisServer& old = redis.master();
  auto connection = old.Connect();
  connection.Text({"SET", "replicated", "1"});
  ASSERT_EQ(connection.Integer({"WAIT", "1", "0"}), 1);
  old.Kill();
  redis.WaitForOther(old);
  EXPECT_EQ(redis.master().Connect().Integer({"STRLEN", kKey}), kBytesWithGrants);
  const auto allowed = [&] { return servers[0].allowed + servers[1].allowed; };
  // The whole limit is admitted only if each server uses or returns the units that it holds.
  EXPECT_TRUE(WaitUntil(seconds(60), [&] {
    for (int i = 0; i < 50; ++i) {
      for (Server& server : servers) server.Check();
    }
    return allowed() >= kLimit;
  }));
  for (int i = 0; i < 50; ++i) {
    for (Server& server : servers) server.Check();
  }
  EXPECT_EQ(allowed(), kLimit);
}

}  // namespace
}  // namespace sluice::test
