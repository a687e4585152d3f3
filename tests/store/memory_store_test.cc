#include "store/memory/memory_store.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <latch>
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

// A peek uses the new rate, then a charge uses the old rate. Neither shortens the life of the
// counter.
TEST(MemoryStore, RateLowered_ChecksOfBothRates_KeepTheCounterWhileItMatters) {
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
    EXPECT_EQ(Submit(store, "new"), StoreFailure::kOverloaded) << "the old counter still matters";
    clock.Advance(row.matters);
    EXPECT_FALSE(Submit(store, "new"));
  }
}

// As in Redis, whose key has then expired. Other buckets continue, because they are full by then.
TEST(MemoryStore, BucketThatStartsEmpty_UnusedForALongTime_IsEmptyAgain) {
  struct Row {
    const char* what;
    std::int64_t rate;
    Duration kept;
  };
  for (const Row& row : {Row{"an hour", 600, std::chrono::hours(1)},
                         Row{"ten times its fill time", 10, std::chrono::hours(10)}}) {
    SCOPED_TRACE(row.what);
    ManualClock clock(Time(seconds(1000)));
    MemoryStore store(clock, {.max_keys = 1});
    const Limit limit = TokenBucket{
        .rate = row.rate, .period = std::chrono::hours(1), .burst = 10, .starts_empty = true};
    const auto check = [&](std::int64_t cost, Mode mode = Mode::kConsume) {
      BlockingCheck asked({{"k", limit}}, cost, mode);
      EXPECT_FALSE(asked.RunOn(store).failure());
      return asked.counters[0].verdict;
    };
    EXPECT_FALSE(check(1).admitted) << "it begins to fill";
    for (int i = 0; i < 2; ++i) {
      clock.Advance(row.kept - Duration(1));
      EXPECT_TRUE(check(1).admitted) << "it is still known";
    }
    clock.Advance(row.kept);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(check(1, Mode::kPeek).remaining, 0);
    EXPECT_FALSE(check(1).admitted) << "it begins to fill again";
    clock.Advance(row.kept / 10);
    EXPECT_EQ(check(10).remaining, 0);
  }
}

TEST(MemoryStore, MaxKeys_LimitsTheKeysOfAllShardsTogether) {
  constexpr int kKeys = 1000;
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_keys = kKeys});
  const auto add = [&](const std::string& prefix) {
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_FALSE(Submit(store, prefix + std::to_string(i))) << prefix << i;
    }
    EXPECT_EQ(Submit(store, "new"), StoreFailure::kOverloaded);
    EXPECT_EQ(store.size(), static_cast<std::size_t>(kKeys));
  };
  add("a");
  clock.Advance(seconds(60));  // now all counters of all shards have ended
  add("b");
  BlockingReset reset({"b7"});
  store.Reset(reset);
  EXPECT_FALSE(Submit(store, "new"));
}

TEST(MemoryStore, CheckOfSeveralNewKeys_MakesRoomForAll) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_keys = 4});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(Submit(store, "k" + std::to_string(i)));
  clock.Advance(seconds(60));
  BlockingCheck check(
      {{"a", kOnePerMinute}, {"b", kOnePerMinute}, {"c", kOnePerMinute}, {"d", kOnePerMinute}});
  EXPECT_TRUE(check.RunHere(store).admitted);
}

// Runs a check of one counter under a new lease. Returns the check's failure.
std::optional<StoreFailure> Take(MemoryStore& store, const std::string& key, const Limit& limit,
                                 Mode mode = Mode::kConsume) {
  BlockingCheck check({{key, limit}}, 1, mode);
  check.lease = Lease{.id = RandomBytes(), .ttl = seconds(60)};
  return check.RunHere(store).failure();
}

TEST(MemoryStore, MaxMemory_BoundsLogsAndHolders_OtherCountersContinue) {
  const Limit growing[] = {SlidingLog{.limit = 10'000, .window = seconds(60)},
                           Concurrency{.limit = 10'000, .ttl = seconds(60)}};
  for (const Limit& limit : growing) {
    constexpr std::size_t kMost = 100'000;
    ManualClock clock(Time(seconds(1000)));
    MemoryStore store(clock, {.max_memory = kMost});
    const Limit window = kOnePerMinute;
    EXPECT_FALSE(Take(store, "old", window));
    EXPECT_FALSE(Take(store, "log", limit));
    clock.Advance(seconds(1));
    int taken = 0;
    while (!Take(store, "log", limit)) {
      ASSERT_LT(++taken, 10'000) << "not bounded";
      clock.Advance(std::chrono::milliseconds(1));
    }
    EXPECT_GT(taken, 100);
    EXPECT_LT(store.memory(), kMost + 1000);
    EXPECT_EQ(Take(store, "new", window), StoreFailure::kOverloaded);
    EXPECT_FALSE(Take(store, "old", window)) << "an existing window needs no more memory";
    EXPECT_FALSE(Take(store, "log", limit, Mode::kPeek));
    EXPECT_FALSE(Take(store, "log", limit, Mode::kSettle));
    clock.Advance(seconds(61));
    EXPECT_FALSE(Take(store, "new", window)) << "all counters are finished";
  }
}

// Runs a check of one counter under the lease of units whose ID is `number`. Returns the check's
// failure.
std::optional<StoreFailure> Lend(MemoryStore& store, int number, Mode mode = Mode::kConsume) {
  BlockingCheck check({{"k", FixedWindow{.limit = 1'000'000, .window = seconds(60)}}}, 1, mode);
  check.lease = Lease{.ttl = seconds(60)};
  std::memcpy(check.lease->id.data(), &number, sizeof number);
  check.leases_units = true;
  return check.RunHere(store).failure();
}

TEST(MemoryStore, OpenLeases_AreBounded_AndEndByThemselves) {
  constexpr int kMost = MemoryStore::kMaxOpenLeases;
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {});
  for (int i = 0; i < kMost; ++i) ASSERT_FALSE(Lend(store, i));
  EXPECT_EQ(Lend(store, kMost), StoreFailure::kOverloaded);
  EXPECT_FALSE(Submit(store, "another")) << "without a lease";
  EXPECT_FALSE(Lend(store, 7, Mode::kSettle));
  EXPECT_FALSE(Lend(store, kMost)) << "the lease takes the place of a settled one";

  clock.Advance(seconds(60) + kSettlesFor);
  EXPECT_FALSE(Lend(store, kMost + 1));
  for (int i = 0; i < kMost / 50; ++i) Submit(store, "another");
  EXPECT_EQ(store.leases(), 1U);
}

// As in the test of shares of a warming bucket, the share may change while a lease is open.
TEST(MemoryStore, LeaseOfAWarmingBucket_SettledAtAnotherShare_NothingIsGivenBack) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {});
  const Limit whole = WarmingBucket{.rate = 10, .period = seconds(1), .warmup = seconds(6)};
  const auto lend = [&](std::int64_t rank, Mode mode, std::int64_t units) {
    BlockingCheck check({{"k", LimitFor(whole, Share::OfServer(2, rank))}}, units, mode);
    check.lease = Lease{.ttl = seconds(60)};
    check.leases_units = true;
    EXPECT_FALSE(check.RunHere(store).failure());
    return check.settled;
  };
  lend(0, Mode::kConsume, 5);
  EXPECT_EQ(lend(1, Mode::kSettle, 2), Settled::kSettled);
  EXPECT_EQ(store.leases(), 1U) << "remembered as settled";
}

// A store remembers each settlement for a minute. Here, more leases are settled in a minute than
// the store may remember.
TEST(MemoryStore, SettledLeases_AreBounded) {
  constexpr int kMost = MemoryStore::kMaxOpenLeases;
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {});
  for (int i = 0; i < 2 * kMost; ++i) {
    ASSERT_FALSE(Lend(store, i));
    ASSERT_FALSE(Lend(store, i, Mode::kSettle));
  }
  EXPECT_EQ(store.leases(), MemoryStore::kMaxOpenLeases);
}

// If memory is full, new entries of a log can use the memory of entries that have left its window.
TEST(MemoryStore, MemoryIsFull_LogReplacesItsExpiredEntries) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_memory = 10'000});
  const Limit log = SlidingLog{.limit = 10'000, .window = seconds(60)};
  while (!Take(store, "log", log)) clock.Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(Take(store, "log", log), StoreFailure::kOverloaded);
  clock.Advance(seconds(60) - std::chrono::milliseconds(100) * 300);
  EXPECT_FALSE(Take(store, "log", log));
}

// max_memory limits an estimate of the memory that the allocator has provided.
TEST(MemoryStore, Memory_IsEstimatedWithinAThird) {
  const std::size_t before = mallinfo2().uordblks;
  if (before == 0) GTEST_SKIP() << "a sanitizer's allocator does not report what it has provided";
  {
    ManualClock clock(Time(seconds(1000)));
    MemoryStore store(clock, {});
    Take(store, "first", kOnePerMinute);  // a thread's first check allocates more
  }
  const struct {
    Limit limit;
    int checks;
  } rows[] = {
      {kOnePerMinute, 1},
      {TokenBucket{.rate = 1, .period = seconds(1), .burst = 100}, 1},
      {SlidingWindow{.limit = 100, .window = seconds(60), .segments = 60}, 61},
      {SlidingLog{.limit = 1000, .window = seconds(3600)}, 1},
      {SlidingLog{.limit = 1000, .window = seconds(3600)}, 200},
      {Concurrency{.limit = 1000, .ttl = seconds(3600)}, 1},
      {Concurrency{.limit = 1000, .ttl = seconds(3600)}, 200},
  };
  for (const auto& [limit, checks] : rows) {
    constexpr int kKeys = 500;
    ManualClock clock(Time(seconds(1000)));
    MemoryStore store(clock, {});
    const std::size_t empty = mallinfo2().uordblks;
    for (int i = 0; i < checks; ++i) {
      for (int key = 0; key < kKeys; ++key) {
        EXPECT_FALSE(
            Take(store, "sluice:{shop/pay-per-user/" + std::to_string(key) + "}:tag", limit));
      }
      clock.Advance(seconds(1));
    }
    const auto taken = static_cast<double>(mallinfo2().uordblks - empty);
    const auto counted = static_cast<double>(store.memory());
    EXPECT_GT(counted, taken * 3 / 4) << CounterTag(limit) << ", per key " << taken / kKeys;
    EXPECT_LT(counted, taken * 4 / 3) << CounterTag(limit) << ", per key " << taken / kKeys;
  }
}

// Counters expire one by one while new keys arrive. The cost of a new key must not depend on the
// number of counters.
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
  clock.Advance(seconds(10));  // from now on, one counter ends every 500 µs
  const auto flood = time_of([&] {
    for (int i = 0; i < kNew; ++i) add(kKeys + i);
  });
  EXPECT_LT(flood, filling);
  EXPECT_GT(store.size(), kKeys - 1000);
  clock.Advance(std::chrono::milliseconds(100));
  EXPECT_FALSE(Submit(store, "new"));
}

// The cost of a check must not depend on the number of holders either.
TEST(MemoryStore, ManyHolders_AreNotIteratedByEachCheck) {
  constexpr int kHolders = 10'000;
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {});
  const Concurrency limit{.limit = kHolders, .ttl = seconds(60)};
  int held = 0;
  const auto time_of_filling_to = [&](int holders) {
    const std::clock_t began = std::clock();  // CPU time, because other processes may run
    for (; held < holders; ++held) {
      BlockingCheck check({{"k", limit}});
      check.lease = Lease{.id = RandomBytes(), .ttl = limit.ttl};
      EXPECT_TRUE(check.RunHere(store).admitted);
    }
    return std::clock() - began;
  };
  time_of_filling_to(100);
  const auto first = time_of_filling_to(1'000);
  time_of_filling_to(kHolders - 900);
  EXPECT_LT(time_of_filling_to(kHolders), 5 * first);
}

// After a check without a seed, such as the settlement of a lease, the next check with a seed must
// not start with a new counter.
TEST(MemoryStore, SeededCounter_CheckWithoutASeed_NextSeededCheckFindsTheState) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_keys = 10, .shards = 1});
  const Limit limit = FixedWindow{.limit = 2, .window = seconds(60)};
  CounterSeed seed{.version = 7};
  seed.keep = Open(limit, seed.state, clock.Now());
  const auto take = [&](const CounterSeed* of, Mode mode) {
    BlockingCheck check({{"k", limit}}, 2, mode);
    check.counters.front().seed = of;
    EXPECT_FALSE(check.RunOn(store).failure());
    return check.admitted;
  };
  EXPECT_TRUE(take(&seed, Mode::kConsume));
  take(nullptr, Mode::kCharge);
  EXPECT_FALSE(take(&seed, Mode::kConsume));
}

// The share of a bucket with `warmup` is a WarmingBucket at one server, and a TokenBucket at the
// others. A lease is settled at the share of now, without a seed.
TEST(MemoryStore, ServersShareOfAWarmingBucketChanges_CounterStartsAgain) {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore store(clock, {.max_keys = 10, .shards = 1});
  const Limit whole = WarmingBucket{.rate = 10, .period = seconds(1), .warmup = seconds(6)};
  const auto take = [&](std::int64_t rank, bool seeded) {
    const Limit limit = LimitFor(whole, Share::OfServer(2, rank));
    CounterSeed seed{.version = 7};
    seed.keep = Open(limit, seed.state, clock.Now());
    BlockingCheck check({{"k", limit}});
    if (seeded) check.counters.front().seed = &seed;
    EXPECT_FALSE(check.RunOn(store).failure());
    return check.admitted;
  };
  EXPECT_TRUE(take(0, true));
  EXPECT_FALSE(take(0, true));
  EXPECT_FALSE(take(1, false)) << "all tokens are the other server's";
  EXPECT_FALSE(take(1, true));
  clock.Advance(seconds(10));
  EXPECT_TRUE(take(0, true));
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
  const FixedWindow limit{.limit = 30'000, .window = std::chrono::hours(1)};
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  std::latch started(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      started.arrive_and_wait();
      for (int i = 0; i < 5'000; ++i) {
        // Half of the threads name the shared counter first, the others their own counter.
        const CounterSpec shared{"shared", limit};
        const CounterSpec own{"own" + std::to_string(t), limit};
        BlockingCheck check(t % 2 == 0 ? std::vector{shared, own} : std::vector{own, shared});
        admitted += check.RunHere(store).admitted ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(admitted, 30'000);
}

}  // namespace
}  // namespace sluice::test
