// A fixture for tests of all kinds of stores: an empty store whose time the test controls. A store
// in Redis has exactly the permissions that docs/redis.md lists.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "store/memory/memory_store.h"
#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/store/test_redis.h"

namespace sluice::test {

// 2024-10-04 13:46:40 UTC, a Friday.
inline constexpr Time kStart(std::chrono::seconds(1'728'049'600));

inline Lease MakeLease(std::uint8_t number, Duration ttl) {
  Lease lease{.ttl = ttl};
  lease.id.fill(number);
  return lease;
}

// The parameters of a check on one counter.
struct Ask {
  std::int64_t cost = 1;
  Mode mode = Mode::kConsume;
  std::optional<Duration> max_wait;
  bool only_delays = false;
  std::optional<Time> charged_at;
  std::optional<Lease> lease;
};

// The test parameter is the kind of store.
class StoreTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "memory") {
      store_ = std::make_unique<MemoryStore>(clock_, MemoryStore::Options{});
      return;
    }
    TestRedis& servers = RedisOfKind(GetParam());
    servers.Flush();
    // Long enough for a store to decide on a busy machine.
    constexpr std::chrono::seconds kTimeout(10);
    auto redis =
        std::make_unique<RedisStore>(Io(), RedisUrl::Parse(servers.url()).value(),
                                     RedisStore::Options{.timeout = kTimeout,
                                                         .silence = kTimeout,
                                                         .clock = &clock_,
                                                         .tls = servers.tls(),
                                                         .tls_server_name = servers.name()});
    ASSERT_TRUE(redis->WaitUntilReady(std::chrono::seconds(10)));
    store_ = std::move(redis);
  }

  // Makes Decide and Check use a new counter.
  void NewCounter() { key_ = "sluice:{t/r/" + std::to_string(++counters_) + "}:k"; }

  // Runs a check on one counter and returns its limit's verdict.
  Verdict Decide(const Limit& limit, const Ask& ask) {
    BlockingCheck check({{key_, limit}}, ask.cost, ask.mode);
    check.demand.max_wait = ask.max_wait;
    check.demand.only_delays = ask.only_delays;
    check.demand.charged_at = ask.charged_at;
    check.lease = ask.lease;
    check.RunOn(*store_);
    EXPECT_FALSE(check.failure());
    EXPECT_EQ(check.admitted, check.counters[0].verdict.admitted);
    EXPECT_EQ(check.decided_at, clock_.Now());
    return check.counters[0].verdict;
  }
  Verdict Check(const Limit& limit, std::int64_t cost = 1, Mode mode = Mode::kConsume) {
    return Decide(limit, {.cost = cost, .mode = mode});
  }
  Verdict Peek(const Limit& limit, std::int64_t cost = 1) {
    return Check(limit, cost, Mode::kPeek);
  }

  // Runs `tries` checks with cost 1. Returns how many were admitted.
  int Admitted(const Limit& limit, int tries) {
    int admitted = 0;
    for (int i = 0; i < tries; ++i) admitted += Check(limit).admitted ? 1 : 0;
    return admitted;
  }

  // Advances the clock by `later`. Expects that cost 1 is admitted then, but is denied just before.
  void ExpectOpensAfter(const Limit& limit, Duration later) {
    clock_.Advance(later - Duration(1));
    EXPECT_FALSE(Peek(limit).admitted) << "too early";
    clock_.Advance(Duration(1));
    EXPECT_TRUE(Peek(limit).admitted) << "too late";
  }

  ManualClock clock_{kStart};
  std::unique_ptr<Store> store_;

 private:
  std::string key_ = "sluice:{t/r/x}:k";
  int counters_ = 0;
};

inline auto EveryStore() {
  return testing::Values("memory", "redis", "tls", "sentinel", "cluster", "tls_sentinel",
                         "tls_cluster");
}
inline std::string NameOfStore(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace sluice::test
