// CheckLimits: many checks in one call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/service/batches.h"
#include "tests/service/serving_fixture.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class BatchTest : public ServingTest {
 protected:
  BatchTest() { limiter_.SetRules(HundredPerUser()); }
};

TEST_F(BatchTest, OneKeyAThousandTimes_TheFirstHundredAreAllowed) {
  ExpectFirstHundredOfAThousandAllowed(*stub_);
}

TEST_F(BatchTest, InvalidItems_FailAlone_WithTheirRequestIds) {
  v1::CheckLimitsRequest batch;
  AddCheck(batch, "1");
  AddCheck(batch, "2").clear_domain();
  AddCheck(batch, "3");
  AddCheck(batch, "4").mutable_max_wait()->set_seconds(-1);
  AddCheck(batch, "5").set_request_id(std::string(256, 'x'));
  AddCheck(batch, "6");
  // In this item, a field before request_id is malformed. Its error still has the request_id.
  const std::string bytes =
      batch.SerializeAsString() + std::string("\x0a\x09\x0a\x04\xff\xff\xff\xff\x32\x01i", 11);
  const auto raw = CallRaw(channel_, "/sluice.v1.RateLimiter/CheckLimits", bytes);
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

TEST_F(BatchTest, EmptyTooLargeOrMalformedBatch_ErrorNamesTheChecksField) {
  v1::CheckLimitsRequest many;
  for (int i = 0; i < 1001; ++i) AddCheck(many, "42");
  for (const std::string& bytes :
       {std::string(), many.SerializeAsString(), std::string("\x0a\x05x")}) {
    const auto reply = CallRaw(channel_, "/sluice.v1.RateLimiter/CheckLimits", bytes);
    EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, reply.status.error_code());
    EXPECT_THAT(reply.status.error_message(), HasSubstr("checks"));
  }
  EXPECT_EQ(0U, memory_.size()) << "if a batch is refused, none of its checks is decided";
}

TEST_F(BatchTest, LateAnswers_BatchWaitsForTheLast) {
  store_.Hold();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 10; ++i) AddCheck(batch, "42");
  BatchReply reply;
  std::thread caller([&] { reply = Send(*stub_, batch); });
  ASSERT_TRUE(WaitUntil(seconds(10), [&] { return store_.held() == 10; }));
  store_.ReleaseFirst(9);
  threads_.RunOnEach([](net::EpollLoop&) {});  // the first 9 answers have come
  store_.Release();
  caller.join();
  ASSERT_TRUE(reply.status.ok());
  EXPECT_EQ(std::vector<bool>(10, true), AllowedOf(reply.response));
}

TEST_F(BatchTest, StoreFails_EachItemHasItsError) {
  store_.Hold();
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 3; ++i) AddCheck(batch, "42");
  BatchReply reply;
  std::thread caller([&] { reply = Send(*stub_, batch); });
  ASSERT_TRUE(WaitUntil(seconds(10), [&] { return store_.held() == 3; }));
  store_.Fail(StoreFailure::kUnreachable);
  caller.join();
  ASSERT_TRUE(reply.status.ok());
  ASSERT_EQ(3, reply.response.results_size());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, reply.response.results(i).error().code());
    EXPECT_EQ(std::to_string(i), reply.response.results(i).error().request_id());
  }
}

}  // namespace
}  // namespace sluice::test
