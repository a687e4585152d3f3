// CheckLimits on a real Redis: order, refunds, and batches while Redis hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "limiter/limiter.h"
#include "net/io_threads.h"
#include "rpc/http2/server.h"
#include "service/rate_limiter_service.h"
#include "store/memory/memory_store.h"
#include "store/redis/redis_store.h"
#include "tests/service/batches.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

class BatchOnRedisTest : public testing::Test {
 protected:
  explicit BatchOnRedisTest(Duration timeout = seconds(20)) {
    threads_.Start();
    store_ = std::make_unique<RedisStore>(
        threads_, RedisUrl::Parse(redis_.url()).value(),
        RedisStore::Options{.max_pending = 100'000, .timeout = timeout, .silence = seconds(30)});
    EXPECT_TRUE(store_->WaitUntilReady(seconds(10)));
    limiter_.emplace(
        Limiter::Dependencies{
            .store = *store_, .local = memory_, .fallback = fallback_, .metrics = metrics_},
        Limiter::Options{.store_timeout = timeout, .deny_cache = true});
    limiter_->SetRules(HundredPerUser());
    service_.emplace(*limiter_);
    rpc::Methods methods;
    service_->AddTo(methods);
    server_ =
        rpc::http2::Server::Start(threads_, std::move(methods), {.address = address_}).value();
  }

  // When the store stops, it answers its open checks. Their handlers must still exist then.
  ~BatchOnRedisTest() override {
    store_->Stop();
    server_.reset();
    threads_.Stop();
  }

  const TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "grpc.sock"};
  RedisServer redis_;
  MetricsRegistry metrics_;
  MemoryStore memory_{Clock::System(), {}};
  net::IoThreads threads_{2};
  std::unique_ptr<RedisStore> store_;
  Fallback fallback_{Clock::System()};
  std::optional<Limiter> limiter_;
  std::optional<RateLimiterService> service_;
  std::unique_ptr<rpc::http2::Server> server_;
  std::unique_ptr<v1::RateLimiter::Stub> stub_ = v1::RateLimiter::NewStub(
      grpc::CreateChannel(address_.ToString(), grpc::InsecureChannelCredentials()));
};

TEST_F(BatchOnRedisTest, OneKeyAThousandTimes_TheFirstHundredAreAllowed) {
  ExpectFirstHundredOfAThousandAllowed(*stub_);
}

// Only equal checks share an entry of the store's queue. Here costs and modes differ, so checks of
// one counter are in several entries. Refunds give units back.
TEST_F(BatchOnRedisTest, FewKeysAndManyCosts_AreDecidedInOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    v1::CheckLimitsRequest batch;
    std::vector<bool> expected;
    std::map<std::string, std::uint64_t> taken;
    while (expected.size() < 1000) {
      const std::string user = std::to_string(random() % 7) + " of " + std::to_string(round);
      const std::uint64_t cost = 1 + random() % 3;
      const auto action = random() % 20;
      auto& count = taken[user];
      if (action == 0) {
        AddCheck(batch, user, cost, v1::MODE_REFUND);
        count -= std::min(count, cost);
        expected.push_back(true);
      } else {
        const bool peek = action < 4;
        AddCheck(batch, user, cost, peek ? v1::MODE_PEEK : v1::MODE_CONSUME);
        expected.push_back(count + cost <= 100);
        if (!peek && expected.back()) count += cost;
      }
    }
    const auto reply = Send(*stub_, batch);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    ASSERT_EQ(expected, AllowedOf(reply.response)) << "round " << round;
  }
}

// If a refund has made room, a remembered denial does not apply to later checks.
TEST_F(BatchOnRedisTest, RefundAfterDenial_MakesRoomForTheNext) {
  v1::CheckLimitsRequest full;
  AddCheck(full, "42", 100);
  AddCheck(full, "42");
  ASSERT_EQ((std::vector<bool>{true, false}), AllowedOf(Send(*stub_, full).response));
  v1::CheckLimitsRequest batch;
  AddCheck(batch, "42");
  AddCheck(batch, "42", 1, v1::MODE_REFUND);
  AddCheck(batch, "42");
  EXPECT_EQ((std::vector<bool>{false, true, true}), AllowedOf(Send(*stub_, batch).response));
}

TEST_F(BatchOnRedisTest, ManyCallersAtOnce_ShareTheLimitExactly) {
  constexpr int kCallers = 8;
  std::atomic<int> allowed = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      for (int call = 0; call < 10; ++call) {
        v1::CheckLimitsRequest batch;
        for (int i = 0; i < 100; ++i) AddCheck(batch, std::to_string(i % 10));
        for (const bool it : AllowedOf(Send(*stub_, batch).response)) allowed += it;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(10 * 100, allowed);
}

// A store with a shorter timeout.
class BatchOnHangingRedisTest : public BatchOnRedisTest {
 protected:
  BatchOnHangingRedisTest() : BatchOnRedisTest(std::chrono::milliseconds(300)) {}
};

TEST_F(BatchOnHangingRedisTest, EveryItemHasItsError) {
  redis_.Pause();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 100; ++i) AddCheck(batch, std::to_string(i));
  const auto reply = Send(*stub_, batch);
  redis_.Resume();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_EQ(100, reply.response.results_size());
  for (const auto& result : reply.response.results()) {
    EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, result.error().code());
  }
}

// This server's share of the limit is 100: the first 100 checks of the batch are allowed.
TEST_F(BatchOnHangingRedisTest, RuleDecidesLocally_BatchIsStillDecidedInOrder) {
  limiter_->SetRules(HundredPerUser(OnStoreFailure::kLocal));
  redis_.Pause();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 1000; ++i) AddCheck(batch, "42");
  const auto reply = Send(*stub_, batch);
  redis_.Resume();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  std::vector<bool> expected(1000, false);
  std::fill_n(expected.begin(), 100, true);
  EXPECT_EQ(expected, AllowedOf(reply.response));
}

}  // namespace
}  // namespace sluice::test
