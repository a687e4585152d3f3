// A running sluiced: health, metrics, names of threads, and the drain after SIGTERM.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/http_get.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::StartsWith;

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

TEST(SluicedTest, Metrics_AfterChecks_CountThemByRuleAndDecision) {
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

std::vector<std::string> ThreadNames(pid_t pid) {
  std::vector<std::string> names;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream comm(task.path() / "comm");
    std::getline(comm, names.emplace_back());
  }
  return names;
}

TEST(SluicedTest, Threads_WhileServing_AreNamedAfterTheirWork) {
  Fleet fleet({.rules = kRules, .servers = 1}, nullptr);
  EXPECT_TRUE(fleet.Check(CheckOf("life", "/large")).allowed());
  const auto names = ThreadNames(fleet.server(0).process().pid());
  EXPECT_THAT(names, Contains("io-0"));
  EXPECT_THAT(names, Each(AnyOf("sluiced", "log", "worker", "rules", StartsWith("io-"))));
}

class DrainTest : public testing::Test {
 protected:
  // 8 callers send checks to two servers while `go_on` returns true. After 1,000 checks, the first
  // server gets SIGTERM.
  Answers RunWithSigterm(std::function<bool(int sent)> go_on) {
    std::atomic<int> sent = 0;
    return fleet_.Run({.callers = 8,
                       .rate = 2'000,
                       .request =
                           [&](int index) {
                             ++sent;
                             if (index == 1'000) first_.Signal(SIGTERM);
                             return CheckOf("life", "/large");
                           },
                       .go_on = [&] { return go_on(sent); }});
  }

  // Expects that each charged check was answered. Without an answer, a caller would retry and be
  // charged twice.
  void ExpectChargedIsWhatWasAnswered(const Answers& answers) {
    const Answer next = fleet_.Check(CheckOf("life", "/large"), 1);
    ASSERT_NE(StatusOf(next, "large"), nullptr);
    EXPECT_EQ(static_cast<int>(StatusOf(next, "large")->remaining()),
              1'000'000 - CountAllowed(answers) - 1);
  }

  RedisServer redis_;
  Fleet fleet_{{.rules = kRules, .servers = 2}, &redis_};
  Process& first_ = fleet_.server(0).process();
};

TEST_F(DrainTest, CallersDisconnectSoon_NoCallFails) {
  const Answers answers = RunWithSigterm([](int sent) { return sent < 2'000; });
  EXPECT_EQ(CountAllowed(answers), static_cast<int>(answers.size()));
  EXPECT_EQ(first_.Wait(seconds(10)), 0);
  ExpectChargedIsWhatWasAnswered(answers);
}

TEST_F(DrainTest, CallersStay_EveryChargedCheckIsAnswered) {
  const Answers answers = RunWithSigterm(
      [this](int sent) { return sent < 40'000 && first_.CountLines("stopped") == 0; });
  EXPECT_EQ(first_.Wait(seconds(10)), 0);
  EXPECT_LT(CountAllowed(answers), static_cast<int>(answers.size()));
  ExpectChargedIsWhatWasAnswered(answers);
}

}  // namespace
}  // namespace sluice::test
