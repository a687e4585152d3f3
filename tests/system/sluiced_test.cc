// The life of a sluiced: ready, healthy, seen in metrics, drained.
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "tests/support/http_get.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr char kRules[] = R"yaml(
domain: life
rules:
  - name: once
    match: {endpoint: /once}
    limits:
      - {algorithm: fixed_window, limit: 1, window: 1h}
  - name: large
    match: {endpoint: /large}
    limits:
      - {algorithm: fixed_window, limit: 1000000, window: 1h}
)yaml";

TEST(SluicedTest, Metrics_AfterChecks_TellThemByRuleAndDecision) {
  Fleet fleet({.rules = kRules, .servers = 1}, nullptr);
  EXPECT_TRUE(fleet.Check(CheckOf("life", "/once")).allowed());
  EXPECT_TRUE(fleet.Check(CheckOf("life", "/once")).denied());
  EXPECT_TRUE(fleet.Check(CheckOf("life", "/once")).denied());

  const std::string& http = fleet.server(0).http_address();
  EXPECT_EQ(HttpGet(http, "/healthz").status, 200);
  EXPECT_EQ(HttpGet(http, "/nowhere").status, 404);
  const HttpAnswer metrics = HttpGet(http, "/metrics");
  EXPECT_EQ(metrics.status, 200);
  const auto has_line = [&](std::string_view decision, std::string_view value) {
    std::istringstream lines(metrics.body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("sluice_checks_total{") && line.ends_with(value) &&
          line.find("rule=\"once\"") != std::string::npos &&
          line.find(decision) != std::string::npos) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(has_line("allowed", " 1")) << metrics.body;
  EXPECT_TRUE(has_line("denied", " 2")) << metrics.body;
}

// A caller who hears nothing of a check that was charged would take it twice.
TEST(SluicedTest, Sigterm_UnderLoad_AnswersWhatItChargedAndExitsWithZero) {
  constexpr int kChecks = 4'000;
  RedisServer redis;
  Fleet fleet({.rules = kRules, .servers = 2}, &redis);
  const Answers answers = fleet.Run({.callers = 8, .checks = kChecks, .request = [&](int index) {
                                       if (index == kChecks / 2) {
                                         fleet.server(0).process().Signal(SIGTERM);
                                       }
                                       return CheckOf("life", "/large");
                                     }});
  EXPECT_EQ(fleet.server(0).process().Wait(seconds(10)), 0);
  EXPECT_LT(CountAllowed(answers), kChecks);
  const Answer next = fleet.Check(CheckOf("life", "/large"), 1);
  ASSERT_NE(StatusOf(next, "large"), nullptr);
  EXPECT_EQ(static_cast<int>(StatusOf(next, "large")->remaining()),
            1'000'000 - CountAllowed(answers) - 1);
}

}  // namespace
}  // namespace sluice::test
