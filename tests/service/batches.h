// Helpers to create, send and read batches of checks on one rule.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "match/rule_index.h"

namespace sluice::test {

// 100 a minute for each user. The first check opens the window.
inline std::shared_ptr<const RuleIndex> HundredPerUser(
    OnStoreFailure on_store_failure = OnStoreFailure::kError) {
  Rule rule{.name = "per-user", .per = {{.attribute = "user"}}};
  rule.limits.limits = {FixedWindow{.limit = 100, .window = std::chrono::seconds(60)}};
  rule.on_store_failure = on_store_failure;
  return RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value();
}

inline v1::CheckLimitRequest& AddCheck(v1::CheckLimitsRequest& batch, const std::string& user,
                                       std::uint64_t cost = 1, v1::Mode mode = v1::MODE_CONSUME) {
  auto& check = *batch.add_checks();
  check.set_domain("shop");
  (*check.mutable_attributes())["user"] = user;
  check.set_cost(cost);
  check.set_mode(mode);
  check.set_request_id(std::to_string(batch.checks_size() - 1));
  return check;
}

struct BatchReply {
  grpc::Status status;
  v1::CheckLimitsResponse response;
};

inline BatchReply Send(v1::RateLimiter::Stub& stub, const v1::CheckLimitsRequest& batch,
                       std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  BatchReply reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  reply.status = stub.CheckLimits(&context, batch, &reply.response);
  return reply;
}

inline std::vector<bool> AllowedOf(const v1::CheckLimitsResponse& response) {
  std::vector<bool> allowed;
  for (const auto& result : response.results()) {
    EXPECT_TRUE(result.has_response()) << result.error().message();
    EXPECT_EQ(std::to_string(allowed.size()), result.response().request_id());
    allowed.push_back(result.response().decision() == v1::DECISION_ALLOWED);
  }
  return allowed;
}

inline void ExpectFirstHundredOfAThousandAllowed(v1::RateLimiter::Stub& stub) {
  v1::CheckLimitsRequest batch;
  for (int i = 0; i < 1000; ++i) AddCheck(batch, "42");
  const auto reply = Send(stub, batch);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  std::vector<bool> expected(1000, false);
  std::fill_n(expected.begin(), 100, true);
  EXPECT_EQ(expected, AllowedOf(reply.response));
}

}  // namespace sluice::test
