#include "limiter/check_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "limiter/active_rules.h"

namespace sluice {
namespace {

TEST(CheckRequest, UnitsOf_IsTheWeightedSumOfTheCountedAmounts) {
  constexpr auto kConsume = Mode::kConsume;
  const struct {
    std::int64_t cost;
    Mode mode;
    std::vector<Amount> amounts;
    Counts counts;
    std::optional<std::int64_t> units;
  } rows[] = {
      {7, kConsume, {{"in", 5}}, {}, 7},
      {7, kConsume, {}, {{"cost", 3}}, 21},
      {7, kConsume, {{"in", 5}, {"out", 2}}, {{"in", 1}}, 5},
      {7, kConsume, {{"in", 5}, {"out", 2}}, {{"in", 3}, {"out", 15}}, 45},
      {7, kConsume, {{"in", 5}}, {{"out", 15}}, 0},
      {7, kConsume, {{"in", 5}}, {{"cost", 1}, {"in", 1}, {"requests", 1}}, 13},
      // If the number of requests is not given, the mode and the cost determine it.
      {7, kConsume, {}, {{"requests", 1}}, 1},
      {7, Mode::kPeek, {}, {{"requests", 2}}, 2},
      {7, Mode::kCharge, {}, {{"requests", 1}}, 0},
      {7, Mode::kRefund, {}, {{"requests", 1}}, 0},
      {0, kConsume, {{"in", 5}}, {{"requests", 1}}, 0},
      {0, kConsume, {{"requests", 3}}, {{"requests", 1}}, 3},
      {1, Mode::kRefund, {{"requests", 3}}, {{"requests", 1}}, 3},
      {1, kConsume, {{"requests", 0}}, {{"requests", 1}}, 0},
      // Up to 2^53 units.
      {1, kConsume, {{"in", kMaxCost}}, {{"in", 1}}, kMaxCost},
      {1, kConsume, {{"in", kMaxCost}, {"out", 1}}, {{"in", 1}, {"out", 1}}, std::nullopt},
      {1, kConsume, {{"in", kMaxCost}, {"out", kMaxCost}}, {{"in", 1}, {"out", 1}}, std::nullopt},
      {1, kConsume, {{"in", kMaxCost / 2 + 1}}, {{"in", 2}}, std::nullopt},
      {1, kConsume, {{"in", kMaxCost}}, {{"in", CountedAmount::kMaxWeight}}, std::nullopt},
      {1,
       kConsume,
       {{"in", kMaxCost / 1'000'000'000}},
       {{"in", 1'000'000'000}},
       9'007'199'000'000'000},
  };
  for (const auto& row : rows) {
    const CheckRequest request{
        .cost = row.cost, .amounts = row.amounts, .demand = {.mode = row.mode}};
    EXPECT_EQ(request.UnitsOf(row.counts), row.units) << &row - rows;
  }
}

TEST(CheckRequest, TakesNothing_IfCostAndAmountsAreZero) {
  EXPECT_FALSE(CheckRequest{}.TakesNothing());
  EXPECT_TRUE((CheckRequest{.cost = 0}.TakesNothing()));
  EXPECT_TRUE((CheckRequest{.cost = 0, .amounts = {{"a", 0}, {"b", 0}}}.TakesNothing()));
  EXPECT_FALSE((CheckRequest{.cost = 0, .amounts = {{"a", 0}, {"b", 1}}}.TakesNothing()));
  EXPECT_FALSE((CheckRequest{.cost = 1, .amounts = {{"a", 0}}}.TakesNothing()));
}

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
      {"cost", [](auto& r) { r.cost = kMaxCost + 1; }, invalid, "cost: is 9007199254740993"},
      {"many amounts",
       [](auto& r) {
         r.amounts.assign(17, {"a", 1});
       },
       invalid, "amounts: there are 17; at most 16"},
      {"empty name of an amount",
       [](auto& r) {
         r.amounts.push_back({"", 1});
       },
       invalid, "amounts: a name is empty"},
      {"long name of an amount",
       [&](auto& r) {
         r.amounts.push_back({long_text, 1});
       },
       invalid, "amounts: a name: has 10000 bytes; at most 255"},
      {"amount",
       [](auto& r) {
         r.amounts.push_back({"tokens", kMaxCost + 1});
       },
       invalid, "amounts[\"tokens\"]: is 9007199254740993; at most 2^53"},
      {"amount beyond 2^63",
       [](auto& r) {
         r.amounts.push_back({"tokens", -1});
       },
       invalid, "amounts[\"tokens\"]: is 18446744073709551615"},
      {"cost as an amount",
       [](auto& r) {
         r.amounts.push_back({"cost", 1});
       },
       invalid, "amounts[\"cost\"]: is not allowed; use the field cost"},
      {"wait", [](auto& r) { r.demand.max_wait = Duration(-1); }, invalid, "max_wait"},
      {"long wait", [](auto& r) { r.demand.max_wait = std::chrono::days(366); }, invalid,
       "max_wait"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    CheckRequest request;
    request.domain = "shop";
    request.cost = kMaxCost;
    request.demand.max_wait = Duration(0);
    ASSERT_TRUE(request.Validate());
    row.spoil(request);
    const auto result = request.Validate();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, row.code);
    EXPECT_THAT(result.error().message, testing::HasSubstr(row.named));
  }
}

TEST(CheckRequest, LargestValueOfEachField_IsValid) {
  const std::string domain(255, 'd');
  const std::string name(255, 'n');
  const std::string value(8192, 'v');
  CheckRequest request;
  request.domain = domain;
  request.attributes.assign(64, {name, value});
  request.cost = kMaxCost;
  std::vector<std::string> amounts;
  for (std::size_t i = 0; i < kMaxAmounts; ++i) amounts.push_back(name.substr(1) + char('a' + i));
  for (const std::string& amount : amounts) request.amounts.push_back({amount, kMaxCost});
  request.demand.max_wait = std::chrono::days(365);
  EXPECT_TRUE(request.Validate());
}

// A handler reuses one request object for all its calls.
TEST(CheckRequest, Clear_ResetsEachField) {
  const IndexedLimit limit;
  CheckRequest request;
  request.domain = "shop";
  request.attributes = {{"user", "42"}};
  request.cost = 7;
  request.amounts = {{"tokens", 500}};
  request.demand = {.mode = Mode::kRefund};
  request.lease_ttl = std::chrono::seconds(60);
  request.deadline = SteadyTime();
  request.in_order = request.ask_store = request.charge_decides = true;
  request.may_lease = false;
  MetricsRegistry metrics;
  request.rules = std::make_shared<const ActiveRules>(RuleIndex::Build({}, {}).value(), metrics);
  request.limits = {&limit, 1};
  request.Clear();
  EXPECT_EQ(request.domain, "");
  EXPECT_TRUE(request.attributes.empty());
  EXPECT_EQ(request.cost, 1);
  EXPECT_TRUE(request.amounts.empty());
  EXPECT_EQ(request.demand, Demand());
  EXPECT_FALSE(request.lease_ttl);
  EXPECT_EQ(request.deadline, SteadyTime::max());
  EXPECT_FALSE(request.in_order || request.ask_store || request.charge_decides);
  EXPECT_TRUE(request.may_lease);
  EXPECT_FALSE(request.rules);
  EXPECT_TRUE(request.limits.empty());
}

}  // namespace
}  // namespace sluice
