// How checks gather on their way to Redis: into runs, packs, and over bursts.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "metrics/metrics_registry.h"
#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

using Checks = std::vector<std::unique_ptr<BlockingCheck>>;

constexpr FixedWindow kTen{.limit = 10, .window = seconds(30)};

class RedisGathering : public testing::Test {
 protected:
  RedisGathering() { EXPECT_TRUE(store_.WaitUntilReady(seconds(10))); }

  // A check that is left behind fails some time.
  static void Start(std::unique_ptr<BlockingCheck> check, RedisStore& store, Checks& checks) {
    check->deadline = SteadyNow() + seconds(10);
    checks.push_back(std::move(check));
    checks.back()->Start(store);
  }

  // Submits `n` checks more that are equal.
  void StartEqual(int n, Checks& checks) {
    for (int i = 0; i < n; ++i) Start(std::make_unique<BlockingCheck>(&hot_), store_, checks);
  }

  // Submits `n` checks more, each of a counter of its own.
  void StartDifferent(int n, Checks& checks) {
    for (int i = 0; i < n; ++i) {
      std::vector<CounterSpec> counters{{"k" + std::to_string(i), kTen}};
      Start(std::make_unique<BlockingCheck>(std::move(counters)), store_, checks);
    }
  }

  // Lets a call be under way while others come.
  void CallWhile(const std::function<void()>& others_come) {
    const int before = Calls();
    Checks one;
    server_.Pause();
    Start(std::make_unique<BlockingCheck>(std::vector<CounterSpec>{{"one", kTen}}), store_, one);
    EXPECT_TRUE(WaitUntil(seconds(10), [&] { return Calls() == before + 1; }));
    others_come();
    server_.Resume();
    ExpectAnswers(one);
    WaitForTurn();
  }

  // Till whatever the store was at is done.
  void WaitForTurn() {
    BlockingReset reset({"none"});
    reset.deadline = SteadyNow() + seconds(10);
    EXPECT_FALSE(reset.RunOn(store_));
  }

  static void ExpectAnswers(Checks& checks) {
    for (auto& check : checks) EXPECT_FALSE(check->Wait().failure);
  }

  // How many times the script has been called.
  int Calls() const {
    const std::string series = "\nsluice_redis_script_calls_total ";
    const std::string page = metrics_.Render();
    return std::stoi(page.substr(page.find(series) + series.size()));
  }

  // Runs bursts of equal checks, each when the one before is answered.
  void RunBursts(int n) {
    for (int i = 0; i < n && !HasFailure(); ++i) {
      Checks checks;
      {
        const Store::Burst burst(store_);
        StartEqual(24, checks);
        // Some end while the first check is under way, some when it has been answered.
        const SteadyTime end = SteadyNow() + std::chrono::microseconds(i % 200);
        while (SteadyNow() < end) continue;
      }
      ExpectAnswers(checks);
    }
  }

  const CounterSpec hot_{"hot", FixedWindow{.limit = 300, .window = seconds(30)}};
  MetricsRegistry metrics_;
  RedisServer server_;
  RedisStore store_{RedisUrl::Parse(server_.url()).value(),
                    {.loop = {.silence = minutes(1), .metrics = &metrics_}}};
};

TEST_F(RedisGathering, EqualChecks_GoAsOneAndAreAnsweredInOrder) {
  Checks checks;
  CallWhile([&] { StartEqual(500, checks); });
  for (int i = 0; i < 500; ++i) {
    ASSERT_FALSE(checks[i]->Wait().failure);
    EXPECT_EQ(checks[i]->admitted, i < 300);
    EXPECT_EQ(checks[i]->counters[0].verdict.remaining, std::max(0, 299 - i));
  }
  EXPECT_EQ(Calls(), 2);
}

TEST_F(RedisGathering, DifferentChecks_ArePacked) {
  Checks checks;
  CallWhile([&] { StartDifferent(200, checks); });
  for (auto& check : checks) EXPECT_EQ(check->Wait().counters[0].verdict.remaining, 9);
  EXPECT_EQ(Calls(), 1 + 4);
}

TEST_F(RedisGathering, EqualChecksOfABurst_WaitForItsEnd) {
  Checks checks;
  {
    const Store::Burst burst(store_);
    CallWhile([&] { StartEqual(20, checks); });
    StartEqual(20, checks);
    WaitForTurn();
    EXPECT_EQ(Calls(), 1);
  }
  ExpectAnswers(checks);
  EXPECT_EQ(Calls(), 2);
}

TEST_F(RedisGathering, EqualChecksOfABurst_DoNotWaitForTheLongestOfSeveral) {
  Checks checks;
  const Store::Burst longest(store_);
  {
    const Store::Burst burst(store_);
    CallWhile([&] { StartEqual(20, checks); });
  }
  ExpectAnswers(checks);
}

TEST_F(RedisGathering, FewOrManyOrDifferentChecksOfABurst_DoNotWait) {
  Checks checks;
  const Store::Burst burst(store_);
  CallWhile([&] { StartEqual(15, checks); });
  ExpectAnswers(checks);
  CallWhile([&] { StartEqual(128, checks); });
  ExpectAnswers(checks);
  CallWhile([&] { StartDifferent(20, checks); });
  ExpectAnswers(checks);
}

TEST_F(RedisGathering, ServerDiesInABurst_ChecksThatWaitFailAtOnce) {
  Checks checks;
  {
    const Store::Burst burst(store_);
    CallWhile([&] { StartEqual(20, checks); });
    server_.Kill();
    for (auto& check : checks) EXPECT_EQ(check->Wait().failure, StoreFailure::kUnreachable);
  }
  server_.Start();
  ASSERT_TRUE(store_.WaitUntilReady(seconds(10)));
  RunBursts(1);
}

TEST_F(RedisGathering, BurstsThatEndAtAnyTime_LeaveNoCheckBehind) {
  RunBursts(4000);  // alone: nobody comes later and takes along what was left
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([this] { RunBursts(400); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::test
