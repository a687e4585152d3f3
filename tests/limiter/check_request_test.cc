#include "limiter/check_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "limiter/rules_in_force.h"

namespace sluice {
namespace {

TEST(CheckRequest, Validate_NamesTheFieldAndWhatIsAllowed) {
  const std::string long_text(10'000, 'x');
  struct Row {
    const char* what;
    std::function<void(CheckRequest&)> spoil;
    ErrorCode code;
    const char* named;
  };
  const auto invalid = ErrorCode::kInvalidArgument;
  const Row rows[] = {
      {"empty domain", [](auto& r) { r.domain = {}; }, invalid, "domain: is empty"},
      {"long domain", [&](auto& r) { r.domain = long_text; }, invalid, "domain: has 10000 bytes"},
      {"many attributes",
       [](auto& r) {
         r.attributes.assign(65, {"a", "b"});
       },
       invalid, "attributes: there are 65; at most 64"},
      {"empty name",
       [](auto& r) {
         r.attributes.push_back({"", "x"});
       },
       invalid, "name is empty"},
      {"long name",
       [&](auto& r) {
         r.attributes.push_back({long_text, "x"});
       },
       invalid, "at most 255"},
      {"long value",
       [&](auto& r) {
         r.attributes.push_back({"user", long_text});
       },
       invalid, "attributes[\"user\"]: has 10000 bytes; at most 8192"},
      {"cost", [](auto& r) { r.demand.cost = kMaxCost + 1; }, invalid, "cost: is 9007199254740993"},
      {"wait", [](auto& r) { r.demand.max_wait = Duration(-1); }, invalid, "max_wait"},
      {"long wait", [](auto& r) { r.demand.max_wait = std::chrono::days(366); }, invalid,
       "max_wait"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    CheckRequest request;
    request.domain = "shop";
    request.demand.cost = kMaxCost;
    request.demand.max_wait = Duration(0);
    ASSERT_TRUE(request.Validate());
    row.spoil(request);
    const auto result = request.Validate();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, row.code);
    EXPECT_THAT(result.error().message, testing::HasSubstr(row.named));
  }
}

TEST(CheckRequest, EachFieldAtItsLargest_IsValid) {
  const std::string domain(255, 'd');
  const std::string name(255, 'n');
  const std::string value(8192, 'v');
  CheckRequest request;
  request.domain = domain;
  request.attributes.assign(64, {name, value});
  request.demand.cost = kMaxCost;
  request.demand.max_wait = std::chrono::days(365);
  EXPECT_TRUE(request.Validate());
}

// Handlers use one request for call after call.
TEST(CheckRequest, Clear_LeavesNothingOfTheLastCall) {
  const IndexedLimit limit;
  CheckRequest request;
  request.domain = "shop";
  request.attributes = {{"user", "42"}};
  request.demand = {.cost = 7, .mode = Mode::kRefund};
  request.deadline = SteadyTime();
  request.in_order = request.ask_store = request.charge_decides = true;
  request.may_lease = false;
  MetricsRegistry metrics;
  request.rules = std::make_shared<const RulesInForce>(RuleIndex::Build({}, {}).value(), metrics);
  request.limits = {&limit, 1};
  request.Clear();
  EXPECT_EQ(request.domain, "");
  EXPECT_TRUE(request.attributes.empty());
  EXPECT_EQ(request.demand, Demand());
  EXPECT_EQ(request.deadline, SteadyTime::max());
  EXPECT_FALSE(request.in_order || request.ask_store || request.charge_decides);
  EXPECT_TRUE(request.may_lease);
  EXPECT_FALSE(request.rules);
  EXPECT_TRUE(request.limits.empty());
}

}  // namespace
}  // namespace sluice
