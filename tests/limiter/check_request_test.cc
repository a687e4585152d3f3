#include "limiter/check_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

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

}  // namespace
}  // namespace sluice
