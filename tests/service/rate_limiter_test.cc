// CheckLimit and Health/Check over a real channel: answers, bad input, many calls at once, stops.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/service/serving_fixture.h"
#include "tests/support/wait_until.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Reply = test::Reply<v1::CheckLimitResponse>;
using test::CallRaw;
using test::Health;
using test::kNotServing;
using test::kServing;

// Each user has 10 units a minute. The first check opens the window. "/no" is blocked.
std::shared_ptr<const RuleIndex> Rules() {
  Rule rule{.name = "per-user", .per = {{.attribute = "user"}}};
  rule.limits.limits = {FixedWindow{.limit = 10, .window = seconds(60)}};
  Rule blocked{.name = "blocked",
               .match = {{"endpoint", {.kind = Pattern::Kind::kExact, .text = "/no"}}}};
  blocked.limits.effect = Limits::Effect::kBlocked;
  return RuleIndex::Build({Domain{.name = "shop", .rules = {rule, blocked}}}, {}).value();
}

class RateLimiterTest : public test::ServingTest {
 protected:
  RateLimiterTest() { limiter_.SetRules(Rules()); }

  void CheckAtOnce(std::size_t count);

  Reply Check(const v1::CheckLimitRequest& request) {
    return Call(&v1::RateLimiter::Stub::CheckLimit, request);
  }

  static v1::CheckLimitRequest ForUser(const std::string& user) {
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    (*request.mutable_attributes())["user"] = user;
    request.set_request_id("id of " + user);
    return request;
  }
};

TEST_F(RateLimiterTest, Check_WithinLimit_ReportsTheState) {
  auto request = ForUser("42");
  request.set_cost(3);
  const auto [status, response] = Check(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(v1::DECISION_ALLOWED, response.decision());
  EXPECT_EQ(v1::SOURCE_STORE, response.source());
  EXPECT_EQ("id of 42", response.request_id());
  EXPECT_EQ(1'000'000, response.decided_at().seconds());
  EXPECT_FALSE(response.has_wait());
  EXPECT_FALSE(response.has_retry_after());
  ASSERT_EQ(1, response.limits_size());
  const auto& limit = response.limits(0);
  EXPECT_EQ("per-user", limit.rule());
  EXPECT_EQ(v1::ALGORITHM_FIXED_WINDOW, limit.algorithm());
  EXPECT_EQ(10U, limit.limit());
  EXPECT_EQ(7U, limit.remaining());
  EXPECT_EQ(60, limit.reset_after().seconds());
  EXPECT_TRUE(limit.admitted());
  EXPECT_FALSE(limit.has_retry_after());
}

TEST_F(RateLimiterTest, Check_BeyondLimit_IsDeniedWithTheTimeToRetry) {
  auto request = ForUser("42");
  request.set_cost(10);
  ASSERT_EQ(v1::DECISION_ALLOWED, Check(request).response.decision());
  clock_.Advance(milliseconds(1'500));
  const auto [status, response] = Check(ForUser("42"));
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(v1::DECISION_DENIED, response.decision());
  EXPECT_EQ(58, response.retry_after().seconds());
  EXPECT_EQ(500'000'000, response.retry_after().nanos());
  ASSERT_EQ(1, response.limits_size());
  EXPECT_FALSE(response.limits(0).admitted());
  EXPECT_EQ(58, response.limits(0).retry_after().seconds());
}

TEST_F(RateLimiterTest, Check_CostOfZero_TakesNothing) {
  auto peek = ForUser("42");
  peek.set_cost(0);
  EXPECT_EQ(10U, Check(peek).response.limits(0).remaining());
  EXPECT_EQ(9U, Check(ForUser("42")).response.limits(0).remaining());
}

TEST_F(RateLimiterTest, Check_BlockedOrWithoutRule_NamesTheSource) {
  auto request = ForUser("42");
  (*request.mutable_attributes())["endpoint"] = "/no";
  const auto blocked = Check(request).response;
  EXPECT_EQ(v1::DECISION_DENIED, blocked.decision());
  EXPECT_EQ(v1::SOURCE_RULE, blocked.source());
  EXPECT_FALSE(blocked.has_retry_after());
  request.set_domain("nobody's");
  EXPECT_EQ(v1::SOURCE_NO_RULE, Check(request).response.source());
}

struct BadInput {
  std::string name;
  grpc::StatusCode code;
  std::string message;
  std::function<void(v1::CheckLimitRequest&)> spoil;
};

std::vector<BadInput> BadInputs() {
  using Request = v1::CheckLimitRequest;
  const auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  return {
      {"EmptyDomain", kInvalid, "domain", [](Request& it) { it.clear_domain(); }},
      {"LongDomain", kInvalid, "domain", [](Request& it) { it.set_domain(std::string(256, 'x')); }},
      {"TenThousandAttributes", kInvalid, "attributes",
       [](Request& it) {
         for (int i = 0; i < 10'000; ++i) (*it.mutable_attributes())[std::to_string(i)] = "x";
       }},
      {"HalfMegabyteValue", kInvalid, "user",
       [](Request& it) { (*it.mutable_attributes())["user"] = std::string(1 << 19, 'x'); }},
      {"EmptyName", kInvalid, "attributes",
       [](Request& it) { (*it.mutable_attributes())[""] = "x"; }},
      {"LongName", kInvalid, "attributes",
       [](Request& it) { (*it.mutable_attributes())[std::string(256, 'x')] = "x"; }},
      {"HugeCost", kInvalid, "cost", [](Request& it) { it.set_cost(std::uint64_t{1} << 63); }},
      {"CostBeyond", kInvalid, "cost",
       [](Request& it) { it.set_cost((std::uint64_t{1} << 53) + 1); }},
      {"UnknownMode", kInvalid, "mode: 7",
       [](Request& it) { it.set_mode(static_cast<v1::Mode>(7)); }},
      {"NegativeWait", kInvalid, "max_wait",
       [](Request& it) { it.mutable_max_wait()->set_seconds(-1); }},
      {"LongId", kInvalid, "request_id",
       [](Request& it) { it.set_request_id(std::string(256, 'x')); }},
      {"FiveMegabytes", grpc::StatusCode::RESOURCE_EXHAUSTED, "",
       [](Request& it) { (*it.mutable_attributes())["user"] = std::string(5 << 20, 'x'); }},
  };
}

TEST_F(RateLimiterTest, Check_BadInput_IsAnswered_ServerKeepsServing) {
  for (const auto& input : BadInputs()) {
    auto request = ForUser("42");
    input.spoil(request);
    const auto status = Check(request).status;
    EXPECT_EQ(input.code, status.error_code()) << input.name << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(input.message)) << input.name;
    ASSERT_TRUE(Check(ForUser(input.name)).status.ok()) << "after " << input.name;
  }
}

TEST_F(RateLimiterTest, Check_UnusualButValidInput_IsDecided) {
  auto request = ForUser(std::string("nul\0in it", 9));
  request.set_cost(std::uint64_t{1} << 53);
  for (int i = 0; i < 63; ++i) (*request.mutable_attributes())[std::to_string(i)] = "漢";
  (*request.mutable_attributes())["62"] = std::string(8192, 'x');
  const auto [status, response] = Check(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(v1::DECISION_DENIED, response.decision());
  EXPECT_FALSE(response.has_retry_after()) << "a cost beyond the limit is never admitted";
}

TEST_F(RateLimiterTest, Check_MalformedBytes_AreInvalid) {
  const std::string method = "/sluice.v1.RateLimiter/CheckLimit";
  const auto not_utf8 = CallRaw(channel_, method, "\x0a\x01\xff");
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, not_utf8.status.error_code());
  EXPECT_THAT(not_utf8.status.error_message(), HasSubstr("domain"));
  const auto truncated = CallRaw(channel_, method, "\x0a\x05x");
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, truncated.status.error_code());
  const auto empty = CallRaw(channel_, method, "");
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, empty.status.error_code());
}

TEST_F(RateLimiterTest, UnknownMethod_IsUnimplemented) {
  const auto reply = CallRaw(channel_, "/sluice.v1.RateLimiter/NoSuchMethod", "");
  EXPECT_EQ(grpc::StatusCode::UNIMPLEMENTED, reply.status.error_code());
}

TEST_F(RateLimiterTest, Health_WhileServing_IsServing) {
  EXPECT_EQ(kServing, Health(channel_));
  EXPECT_EQ(kServing, Health(channel_, "sluice.v1.RateLimiter"));
  EXPECT_EQ("", Health(channel_, "no.such.Service"));
}

// Sends `count` checks at once. Each must be answered.
void RateLimiterTest::CheckAtOnce(std::size_t count) {
  store_.Hold();
  grpc::CompletionQueue queue;
  std::vector<grpc::ClientContext> contexts(count);
  std::vector<Reply> replies(count);
  std::vector<std::unique_ptr<grpc::ClientAsyncResponseReader<v1::CheckLimitResponse>>> calls;
  for (std::size_t i = 0; i < count; ++i) {
    auto request = ForUser(std::to_string(i));
    calls.push_back(stub_->AsyncCheckLimit(&contexts[i], request, &queue));
    calls.back()->Finish(&replies[i].response, &replies[i].status, &replies[i]);
  }
  ASSERT_TRUE(test::WaitUntil(seconds(20), [&] { return store_.held() == count; }));
  store_.Release();
  for (std::size_t i = 0; i < count; ++i) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
  }
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(replies[i].status.ok());
    EXPECT_EQ("id of " + std::to_string(i), replies[i].response.request_id());
  }
}

// The second burst uses the handlers that have served the first one.
TEST_F(RateLimiterTest, ManyCallsAtOnce_AreAllAnswered_Repeatedly) {
  CheckAtOnce(1'000);
  CheckAtOnce(1'000);
}

TEST_F(RateLimiterTest, Stop_WithOpenCalls_WaitsForTheirAnswers) {
  store_.Hold();
  Reply reply;
  std::thread caller([&] { reply = Check(ForUser("42")); });
  ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 1; }));
  std::thread stopper([&] { Stop(seconds(20)); });
  EXPECT_TRUE(test::WaitUntil(seconds(10), [&] { return !health_.serving(); }));
  store_.Release();
  caller.join();
  stopper.join();
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(v1::DECISION_ALLOWED, reply.response.decision());
}

TEST_F(RateLimiterTest, Stop_DrainTimePassed_CancelsOpenCalls) {
  store_.Hold();
  Reply reply;
  std::thread caller([&] { reply = Check(ForUser("42")); });
  ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 1; }));
  std::thread stopper([&] { Stop(milliseconds(1)); });
  caller.join();
  EXPECT_FALSE(reply.status.ok());
  store_.Release();
  stopper.join();
}

}  // namespace
}  // namespace sluice
