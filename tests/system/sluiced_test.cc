// The life of a sluiced: ready, healthy, seen in metrics, drained; and settings it must refuse.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/http_get.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr char kRules[] = R"yaml(
domain: life
rules:
  - name: once
    limits:
      - {algorithm: fixed_window, limit: 1, window: 1h}
)yaml";

TEST(SluicedTest, Metrics_AfterChecks_TellThemByRuleAndDecision) {
  Fleet fleet({.rules = kRules, .servers = 1}, nullptr);
  EXPECT_TRUE(fleet.Check(CheckOf("life", "/")).allowed());
  EXPECT_TRUE(fleet.Check(CheckOf("life", "/")).denied());
  EXPECT_TRUE(fleet.Check(CheckOf("life", "/")).denied());

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

TEST(SluicedTest, Sigterm_UnderLoad_AnswersWhatItTookAndExitsWithZero) {
  Fleet fleet({.rules = kRules, .servers = 1}, nullptr);
  const Answers answers = fleet.Run({.callers = 8, .checks = 2'000, .request = [&](int index) {
                                       if (index == 1'000)
                                         fleet.server(0).process().Signal(SIGTERM);
                                       return CheckOf("life", "/");
                                     }});
  EXPECT_EQ(fleet.server(0).process().Wait(seconds(10)), 0);
  for (const Answer& answer : answers) {
    // Refused before it was taken, or answered.
    EXPECT_TRUE(answer.status.ok() || answer.status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << answer.status.error_code() << ' ' << answer.status.error_message();
  }
}

}  // namespace
}  // namespace sluice::test
