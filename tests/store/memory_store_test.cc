#include "store/memory/memory_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/store/blocking_check.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr FixedWindow kOnePerMinute{.limit = 1, .window = seconds(60)};

std::optional<StoreFailure> Submit(MemoryStore& store, const std::string& key) {
  BlockingCheck check({{key, kOnePerMinute}});
  return check.RunOn(store).failure();
}

TEST(MemoryStore, Full_RefusesNewKeysAndKeepsLiveCounters) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_keys = 10, .shards = 1});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Submit(store, "k" + std::to_string(i)));
  EXPECT_EQ(Submit(store, "new"), StoreFailure::kOverloaded);
  EXPECT_FALSE(Submit(store, "k3"));
  EXPECT_EQ(store.size(), 10u);
}

TEST(MemoryStore, FullOfFinishedCounters_MakesRoom) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_keys = 10, .shards = 1});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Submit(store, "k" + std::to_string(i)));
  clock.Advance(seconds(60));
  EXPECT_FALSE(Submit(store, "new"));
  EXPECT_EQ(store.size(), 1u);
}

// The check of the new rate is denied, and that of the old one takes, but neither cuts the life of
// the counter short.
TEST(MemoryStore, RateLowered_CheckOfTheNewRate_KeepsTheCounterWhileItMatters) {
  struct Row {
    Limit before;
    Limit after;
    Duration matters;
  };
  const Row rows[] = {
      {TokenBucket{.rate = 100, .period = seconds(1), .burst = 100},
       TokenBucket{.rate = 1, .period = seconds(1), .burst = 100}, seconds(100)},
      {LeakyBucket{.rate = 100, .period = seconds(1), .queue = 99},
       LeakyBucket{.rate = 1, .period = seconds(1), .queue = 99}, seconds(100)},
      {WarmingBucket{.rate = 100, .period = seconds(1), .warmup = seconds(1)},
       WarmingBucket{.rate = 1, .period = seconds(1), .warmup = seconds(100)}, seconds(100)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.before.index());
    ManualClock clock(Time(seconds(1000)));
    MemoryStore store(clock, {.max_keys = 1, .shards = 1});
    const auto check = [&](const Limit& limit, std::int64_t cost, Mode mode) {
      BlockingCheck asked({{"k", limit}}, cost, mode);
      EXPECT_FALSE(asked.RunOn(store).failure());
      return asked.admitted;
    };
    EXPECT_TRUE(check(row.before, 99, Mode::kConsume));
    check(row.after, 50, Mode::kPeek);
    check(row.before, 1, Mode::kCharge);
    clock.Advance(row.matters / 2);
    EXPECT_EQ(Submit(store, "new"), StoreFailure::kOverloaded) << "it still matters";
    clock.Advance(row.matters);
    EXPECT_FALSE(Submit(store, "new"));
  }
}

// Counters expire one by one while new keys arrive: the cost of each must not depend on the number
// of counters.
TEST(MemoryStore, FullAndFlooded_DoesNotSearchAllCountersForEachNewKey) {
  constexpr int kKeys = 100'000;
  constexpr int kNew = 2'000;
  const auto key = [](int i) { return "k" + std::to_string(i); };
  const auto time_of = [](const auto& work) {
    const SteadyTime began = SteadyNow();
    work();
    return SteadyNow() - began;
  };
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_keys = kKeys, .shards = 1});
  const auto add = [&](int i) {
    Submit(store, key(i));
    clock.Advance(std::chrono::microseconds(500));
  };
  const auto filling = time_of([&] {
    for (int i = 0; i < kKeys; ++i) add(i);
  });
  clock.Advance(seconds(10));  // from now on one ends every 500 µs
  const auto flood = time_of([&] {
    for (int i = 0; i < kNew; ++i) add(kKeys + i);
  });
  EXPECT_LT(flood, filling);
  EXPECT_GT(store.size(), kKeys - 1000);
  clock.Advance(std::chrono::milliseconds(100));
  EXPECT_FALSE(Submit(store, "new"));
}

// The cost of a check must not depend on the number of holders either.
TEST(MemoryStore, ManyHolders_AreNotWalkedByEachCheck) {
  constexpr int kHolders = 10'000;
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {});
  const Concurrency limit{.limit = kHolders, .ttl = seconds(60)};
  int held = 0;
  const auto time_of_filling_to = [&](int holders) {
    const SteadyTime began = SteadyNow();
    for (; held < holders; ++held) {
      BlockingCheck check({{"k", limit}});
      check.lease = Lease{.id = RandomBytes(), .ttl = limit.ttl};
      EXPECT_TRUE(check.RunHere(store).admitted);
    }
    return SteadyNow() - began;
  };
  time_of_filling_to(100);
  const auto first = time_of_filling_to(1'000);
  time_of_filling_to(kHolders - 900);
  EXPECT_LT(time_of_filling_to(kHolders), 5 * first);
}

TEST(MemoryStore, DeniedCheck_LeavesNoCounterBehind) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {});
  BlockingCheck check({{"k", kOnePerMinute}}, 5);
  EXPECT_FALSE(check.RunOn(store).admitted);
  EXPECT_EQ(store.size(), 0u);
}

TEST(MemoryStore, ManyThreadsOnSeveralCounters_AdmitExactlyTheLimit) {
  MemoryStore store(Clock::System(), {});
  const FixedWindow limit{.limit = 1000, .window = std::chrono::hours(1)};
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        // Each thread names the shared counter and its own one in a different order.
        const CounterSpec shared{"shared", limit};
        const CounterSpec own{"own" + std::to_string(t), limit};
        BlockingCheck check(t % 2 == 0 ? std::vector{shared, own} : std::vector{own, shared});
        admitted += check.RunOn(store).admitted ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(admitted, 1000);
}

}  // namespace
}  // namespace sluice::test
