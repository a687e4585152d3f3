// CheckLimits: many checks in one call, on the embedded store and on a real Redis.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/redis/redis_store.h"
#include "tests/service/serving_fixture.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Reply = test::Reply<v1::CheckLimitsResponse>;

// 100 a minute per user, the first opens the window.
std::shared_ptr<const RuleIndex> Rules(OnStoreFailure on_store_failure = OnStoreFailure::kError) {
  Rule rule{.name = "per-user", .per = {{.attribute = "user"}}};
  rule.limits.limits = {FixedWindow{.limit = 100, .window = seconds(60)}};
  rule.on_store_failure = on_store_failure;
  return RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value();
}

v1::CheckLimitRequest& AddCheck(v1::CheckLimitsRequest& batch, const std::string& user,
                                std::uint64_t cost = 1, v1::Mode mode = v1::MODE_CONSUME) {
  auto& check = *batch.add_checks();
  check.set_domain("shop");
  (*check.mutable_attributes())["user"] = user;
  check.set_cost(cost);
  check.set_mode(mode);
  check.set_request_id(std::to_string(batch.checks_size() - 1));
  return check;
}

Reply Send(v1::RateLimiter::Stub& stub, const v1::CheckLimitsRequest& batch,
           milliseconds timeout = seconds(30)) {
  Reply reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  reply.status = stub.CheckLimits(&context, batch, &reply.response);
  return reply;
}

std::vector<bool> AllowedOf(const v1::CheckLimitsResponse& response) {
  std::vector<bool> allowed;
  for (const auto& result : response.results()) {
    EXPECT_TRUE(result.has_response()) << result.error().message();
    EXPECT_EQ(std::to_string(allowed.size()), result.response().request_id());
    allowed.push_back(result.response().decision() == v1::DECISION_ALLOWED);
  }
  return allowed;
}

void ExpectFirstHundredOfAThousandAllowed(v1::RateLimiter::Stub& stub) {
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 1000; ++i) AddCheck(batch, "42");
  const auto reply = Send(stub, batch);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  std::vector<bool> expected(1000, false);
  std::fill_n(expected.begin(), 100, true);
  EXPECT_EQ(expected, AllowedOf(reply.response));
}

class Batch : public test::ServingTest {
 protected:
  Batch() { limiter_.SetRules(Rules()); }
};

TEST_F(Batch, OneKeyAThousandTimes_TheFirstHundredAreAllowed) {
  ExpectFirstHundredOfAThousandAllowed(*stub_);
}

TEST_F(Batch, InvalidItems_FailAloneAndTellWhichTheyWere) {
  v1::CheckLimitsRequest batch;
  AddCheck(batch, "1");
  AddCheck(batch, "2").clear_domain();
  AddCheck(batch, "3");
  AddCheck(batch, "4").mutable_max_wait()->set_seconds(-1);
  AddCheck(batch, "5").set_request_id(std::string(256, 'x'));
  AddCheck(batch, "6");
  // Refused before its request_id is reached.
  const std::string bytes =
      batch.SerializeAsString() + std::string("\x0a\x09\x0a\x04\xff\xff\xff\xff\x32\x01i", 11);
  const auto raw = test::CallRaw(channel_, "/sluice.v1.RateLimiter/CheckLimits", bytes);
  ASSERT_TRUE(raw.status.ok()) << raw.status.error_message();
  v1::CheckLimitsResponse response;
  ASSERT_TRUE(response.ParseFromString(raw.response));
  ASSERT_EQ(7, response.results_size());
  for (const int good : {0, 2, 5}) {
    EXPECT_EQ(v1::DECISION_ALLOWED, response.results(good).response().decision()) << good;
  }
  const std::vector<std::tuple<int, std::string, std::string>> errors = {
      {1, "domain", "1"}, {3, "max_wait", "3"}, {4, "request_id", ""}, {6, "domain", "i"}};
  for (const auto& [index, field, id] : errors) {
    const auto& error = response.results(index).error();
    EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, error.code()) << index;
    EXPECT_THAT(error.message(), HasSubstr(field)) << index;
    EXPECT_EQ(id, error.request_id()) << index;
  }
}

TEST_F(Batch, NoneOrTooManyOrMalformed_NamesChecks) {
  v1::CheckLimitsRequest many;
  for (int i = 0; i < 1001; ++i) AddCheck(many, "42");
  for (const std::string& bytes :
       {std::string(), many.SerializeAsString(), std::string("\x0a\x05x")}) {
    const auto reply = test::CallRaw(channel_, "/sluice.v1.RateLimiter/CheckLimits", bytes);
    EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, reply.status.error_code());
    EXPECT_THAT(reply.status.error_message(), HasSubstr("checks"));
  }
  EXPECT_EQ(0U, memory_.size()) << "nothing of what is refused is decided";
}

TEST_F(Batch, AnsweredLate_WaitsForTheLastAndFreesTheQueue) {
  store_.Hold();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 10; ++i) AddCheck(batch, "42");
  Reply reply;
  std::thread caller([&] { reply = Send(*stub_, batch); });
  ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 10; }));
  store_.Release();
  caller.join();
  ASSERT_TRUE(reply.status.ok());
  EXPECT_EQ(std::vector<bool>(10, true), AllowedOf(reply.response));
}

TEST_F(Batch, StoreFails_EachItemHasItsError) {
  store_.Hold();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 3; ++i) AddCheck(batch, "42");
  Reply reply;
  std::thread caller([&] { reply = Send(*stub_, batch); });
  ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 3; }));
  store_.Fail(StoreFailure::kUnreachable);
  caller.join();
  ASSERT_TRUE(reply.status.ok());
  ASSERT_EQ(3, reply.response.results_size());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, reply.response.results(i).error().code());
    EXPECT_EQ(std::to_string(i), reply.response.results(i).error().request_id());
  }
}

// A server on a Redis of its own.
class BatchOnRedis : public testing::Test {
 protected:
  BatchOnRedis() {
    EXPECT_TRUE(store_.WaitUntilReady(seconds(10)));
    limiter_.SetRules(Rules());
  }

  static RedisStore::Options StoreOptions() {
    RedisStore::Options options{.loops = 3};
    options.loop.max_pending = 100'000;
    options.loop.silence = seconds(30);
    return options;
  }

  const test::TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "grpc.sock"};
  test::RedisServer redis_;
  MetricsRegistry metrics_;
  MemoryStore memory_{Clock::System(), {}};
  RedisStore store_{RedisUrl::Parse(redis_.url()).value(), StoreOptions()};
  Limiter limiter_{
      {.store = store_, .local = memory_, .clock = Clock::System(), .metrics = metrics_},
      {.store_timeout = seconds(20), .deny_cache = true}};
  std::unique_ptr<GrpcServer> server_ =
      GrpcServer::Start(limiter_, {.address = address_, .queues = 2}).value();
  std::unique_ptr<v1::RateLimiter::Stub> stub_ = v1::RateLimiter::NewStub(
      grpc::CreateChannel(address_.ToString(), grpc::InsecureChannelCredentials()));
};

TEST_F(BatchOnRedis, OneKeyAThousandTimes_TheFirstHundredAreAllowed) {
  ExpectFirstHundredOfAThousandAllowed(*stub_);
}

// Costs differ, so that checks of one counter are in different runs; modes give back, too.
TEST_F(BatchOnRedis, FewKeysAndManyCosts_AreDecidedAsIfInOrder) {
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

// What a denial leaves in this server's memory is not held against what a refund has made room for.
TEST_F(BatchOnRedis, RefundAfterDenial_MakesRoomForTheNext) {
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

TEST_F(BatchOnRedis, ManyCallersAtOnce_ShareTheLimitExactly) {
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

TEST_F(BatchOnRedis, RedisHangs_EveryItemIsAnsweredBeforeTheDeadlineOfTheCall) {
  redis_.Pause();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 100; ++i) AddCheck(batch, std::to_string(i));
  const auto reply = Send(*stub_, batch, seconds(2));
  redis_.Resume();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_EQ(100, reply.response.results_size());
  for (const auto& result : reply.response.results()) {
    EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, result.error().code());
  }
}

// 100 are left to this server alone: the first of the batch get them.
TEST_F(BatchOnRedis, RedisHangsAndRuleDecidesLocally_IsStillInOrder) {
  limiter_.SetRules(Rules(OnStoreFailure::kLocal));
  redis_.Pause();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 1000; ++i) AddCheck(batch, "42");
  const auto reply = Send(*stub_, batch, seconds(2));
  redis_.Resume();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  std::vector<bool> expected(1000, false);
  std::fill_n(expected.begin(), 100, true);
  EXPECT_EQ(expected, AllowedOf(reply.response));
}

}  // namespace
}  // namespace sluice
