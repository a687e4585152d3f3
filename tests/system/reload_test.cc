// Reloads of rules. Under load, a reload must change nothing for callers except the rules.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>

#include "base/thread.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr seconds kTimeout(20);

constexpr char kSetA[] = R"yaml(
domain: shop
rules:
  - {name: a1, limits: [{algorithm: fixed_window, limit: 1000000000, window: 1h}]}
  - {name: a2, per: [user], limits: [{algorithm: token_bucket, rate: 1000000/s}]}
)yaml";
constexpr char kSetB[] = R"yaml(
domain: shop
rules:
  - {name: b1, limits: [{algorithm: fixed_window, limit: 1000000000, window: 1h}]}
  - {name: b2, per: [user], limits: [{algorithm: token_bucket, rate: 1000000/s}]}
)yaml";
constexpr char kBroken[] = R"yaml(
domain: shop
rules:
  - {name: c1, limits: unlimited}
  - {name: c2, limits: [{algorithm: fixed_window, limit: many, window: 1h}]}
)yaml";

// Resident memory in KiB.
std::int64_t ResidentOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") break;
  }
  std::int64_t kib = 0;
  status >> kib;
  return kib;
}

std::string RulesOf(const Answer& answer) {
  std::string names;
  for (const v1::LimitStatus& status : answer.response.limits()) names += status.rule() + " ";
  return names;
}

class ReloadTest : public testing::Test {
 protected:
  void Start(const char* rules, int servers = 1) {
    fleet_.emplace(Fleet::Options{.rules = rules, .servers = servers}, &redis_);
  }

  // Changes the rules of `server`. Returns when `line` is in `count` lines of its log.
  void Reload(int server, const char* rules, const char* line, int count) {
    SluiceServer& sluiced = fleet_->server(server);
    sluiced.WriteRules(rules);
    sluiced.process().Signal(SIGHUP);
    ASSERT_TRUE(WaitUntil(kTimeout, [&] { return sluiced.process().CountLines(line) >= count; }))
        << sluiced.process().Output();
  }

  RedisServer redis_;
  std::optional<Fleet> fleet_;
};

TEST_F(ReloadTest, ThousandReloads_UnderLoad_CallersAreNotAffected) {
  constexpr int kReloads = 1'000;
  constexpr int kCallers = 8;
  constexpr char kApplied[] = "rules: 2 in force, ";
  constexpr char kRefused[] =
      "rules: refused for 1 mistake; until the new rules are fixed, the old rules stay";
  Start(kSetA);
  std::atomic<bool> done = false;
  std::atomic<int> answers = 0, failed = 0, mixed = 0, by_a = 0, by_b = 0;
  std::vector<Thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back("caller", [&, caller] {
      const auto request = CheckOf("shop", "/", "user-" + std::to_string(caller));
      while (!done) {
        const Answer answer = fleet_->Check(request);
        const std::string rules = RulesOf(answer);
        ++answers;
        failed += !answer.allowed() || answer.response.source() != v1::SOURCE_STORE;
        by_a += rules == "a1 a2 ";
        by_b += rules == "b1 b2 ";
        mixed += rules != "a1 a2 " && rules != "b1 b2 ";
      }
    });
  }

  Process& sluiced = fleet_->server(0).process();
  std::int64_t early = 0;
  for (int i = 1; i <= kReloads && !HasFatalFailure(); ++i) {
    if (i % 2 == 0) {
      Reload(0, kBroken, kRefused, sluiced.CountLines(kRefused) + 1);
    } else {
      Reload(0, i % 4 == 1 ? kSetB : kSetA, kApplied, (i + 1) / 2);
    }
    if (i == 100) early = ResidentOf(sluiced.pid());
  }
  const std::int64_t late = ResidentOf(sluiced.pid());
  done = true;
  for (Thread& caller : callers) caller.Join();

  std::printf("%d answers, %d by A, %d by B; resident %lld KiB after 100 reloads, %lld after %d\n",
              answers.load(), by_a.load(), by_b.load(), static_cast<long long>(early),
              static_cast<long long>(late), kReloads);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(mixed, 0);
  EXPECT_GT(by_a, 1'000);
  EXPECT_GT(by_b, 1'000);
  EXPECT_LT(late - early, 3 * 1024);
}

constexpr char kOld[] = R"yaml(
domain: shop
rules:
  - name: raised
    match: {endpoint: /raised}
    limits: [{algorithm: fixed_window, limit: 10, window: 1h}]
  - name: window
    match: {endpoint: /window}
    limits: [{algorithm: fixed_window, limit: 10, window: 1h}]
  - name: algorithm
    match: {endpoint: /algorithm}
    limits: [{algorithm: fixed_window, limit: 10, window: 1h}]
)yaml";
constexpr char kNew[] = R"yaml(
domain: shop
rules:
  - name: raised
    match: {endpoint: /raised}
    limits: [{algorithm: fixed_window, limit: 20, window: 1h}]
  - name: window
    match: {endpoint: /window}
    limits: [{algorithm: fixed_window, limit: 10, window: 2h}]
  - name: algorithm
    match: {endpoint: /algorithm}
    limits: [{algorithm: token_bucket, rate: 1/h, burst: 10}]
)yaml";

// As during a rollout: server 0 keeps the old rules, and server 1 gets the new rules.
TEST_F(ReloadTest, OldAndNewRulesOnOneRedis_EachServerAppliesItsOwnLimits) {
  Start(kOld, 2);
  const auto remaining = [&](int server, const std::string& rule) {
    const Answer answer = fleet_->Check(CheckOf("shop", "/" + rule), server);
    const v1::LimitStatus* status = StatusOf(answer, rule);
    EXPECT_TRUE(status != nullptr && answer.response.source() == v1::SOURCE_STORE)
        << answer.status.error_message();
    return status == nullptr || !answer.allowed() ? -1 : static_cast<int>(status->remaining());
  };
  for (const char* rule : {"raised", "window", "algorithm"}) {
    EXPECT_EQ(remaining(0, rule), 9);
    EXPECT_EQ(remaining(1, rule), 8);
  }
  Reload(1, kNew, "rules: 3 in force, 3 changed (shop/algorithm, shop/raised, shop/window)", 1);
  // In each turn, each server gets one check of each rule. If only a limit's number of units has
  // changed, the old and the new limit share one counter. Otherwise, each has its own.
  for (int turn = 1; turn <= 4; ++turn) {
    EXPECT_EQ(remaining(1, "raised"), 20 - 2 - 2 * turn + 1);
    EXPECT_EQ(remaining(0, "raised"), 10 - 2 - 2 * turn);
    for (const char* rule : {"window", "algorithm"}) {
      EXPECT_EQ(remaining(0, rule), 10 - 2 - turn) << rule;
      EXPECT_EQ(remaining(1, rule), 10 - turn) << rule;
    }
  }
  EXPECT_EQ(remaining(0, "raised"), -1) << "the server with the old rules applies the old limit";
  EXPECT_EQ(remaining(1, "raised"), 9);
  EXPECT_EQ(redis_.Connect().Keys().size(), 5u);
}

TEST_F(ReloadTest, RulesAreBrokenAtTheStart_ExitStatusIs2AndTheMistakeIsNamed) {
  const TempDir dir;
  const std::string file = dir.Write("rules/a.yaml", kBroken);
  Process sluiced({.argv = {SLUICED_PATH, "--rules", dir.path() / "rules"}, .environment = {}});
  EXPECT_EQ(sluiced.Wait(kTimeout), 2);
  EXPECT_TRUE(sluiced.WaitForLine(file + ":5:", kTimeout)) << sluiced.Output();
}

}  // namespace
}  // namespace sluice::test
