// The store with real sentinels: it finds the master, and follows failovers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/captured_log.h"
#include "tests/support/redis_sentinels.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

constexpr FixedWindow kMany{.limit = 1'000'000, .window = minutes(10)};

class SentinelStore : public testing::Test {
 protected:
  SentinelStore() { threads_.Start(); }

  std::unique_ptr<RedisStore> Connect(const std::string& url) {
    return std::make_unique<RedisStore>(
        threads_, RedisUrl::Parse(url).value(),
        RedisStore::Options{
            .timeout = milliseconds(200), .silence = seconds(1), .metrics = &metrics_});
  }

  // Runs a check on each io thread. Returns the units that are left after the last one, or nullopt
  // if a check failed.
  std::optional<std::int64_t> Check(RedisStore& store) {
    std::optional<std::int64_t> remaining;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      BlockingCheck check({{"sluice:{k}", kMany}});
      check.deadline = SteadyNow() + seconds(1);
      if (check.RunOn(store, threads_.loop(i)).failure()) return std::nullopt;
      remaining = check.counters[0].verdict.remaining;
    }
    return remaining;
  }
  bool Decides(RedisStore& store) { return Check(store).has_value(); }

  MetricsRegistry metrics_;
  net::IoThreads threads_{2};
};

TEST_F(SentinelStore, Failover_NewMasterContinuesTheCounts) {
  RedisSentinels redis({});
  CapturedLog log;
  const auto store = Connect(redis.Url());
  ASSERT_TRUE(store->WaitUntilReady(kTopologyTimeout));
  const auto before = Check(*store);
  ASSERT_TRUE(before);
  const RedisServer& old = redis.master();
  EXPECT_EQ(redis.master().Connect().Integer({"WAIT", "1", "0"}), 1);
  redis.Failover();
  EXPECT_NE(&redis.master(), &old);
  // For a moment, the old master still accepts writes, which will be lost.
  auto counted = redis.master().Connect();
  const std::int64_t calls = counted.Calls("evalsha");
  ASSERT_TRUE(WaitUntil(kTopologyTimeout,
                        [&] { return Decides(*store) && counted.Calls("evalsha") > calls; }));
  const auto after = Check(*store);
  ASSERT_TRUE(after);
  EXPECT_LT(*after, *before) << "the counter has been kept";
  store->Stop();
  const std::string lines = log.text();
  EXPECT_GE(log.CountLines("decided by"), 2) << lines;
  EXPECT_THAT(lines, HasSubstr("decided by " + redis.master().tcp_address()));
  EXPECT_THAT(lines, Not(HasSubstr("night")));
}

TEST_F(SentinelStore, MasterDies_ItsReplicaTakesOver) {
  RedisSentinels redis({});
  const auto store = Connect(redis.Url());
  ASSERT_TRUE(store->WaitUntilReady(kTopologyTimeout));
  RedisServer& old = redis.master();
  old.Kill();
  EXPECT_TRUE(WaitUntil(kTopologyTimeout, [&] { return !Decides(*store); }));
  redis.WaitForOther(old);
  EXPECT_TRUE(WaitUntil(kTopologyTimeout, [&] { return Decides(*store); }));
  // The metrics of the dead master disappear. Otherwise, an alert on its lost connection would
  // never end.
  const std::string dead = "server=\"" + old.tcp_address() + "\"";
  EXPECT_TRUE(WaitUntil(kTopologyTimeout, [&] {
    return metrics_.Render().find(dead) == std::string::npos;
  })) << metrics_.Render();
}

// The sentinels still name a server that has become a replica. The store sends it no checks.
TEST_F(SentinelStore, NamedMasterIsAReplica_IsNotUsed) {
  RedisSentinels redis({});
  RedisServer& old = redis.master();
  RedisServer& other = *redis.servers()[redis.servers()[0].get() == &old ? 1 : 0];
  old.Connect().Text({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
  CapturedLog log;
  const auto store = Connect(redis.Url());
  EXPECT_FALSE(store->WaitUntilReady(milliseconds(50)));
  // Sentinels ask for roles every 10 s, and repair a wrong role only after some more seconds.
  // Together this takes about 30 s.
  EXPECT_TRUE(WaitUntil(2 * kTopologyTimeout, [&] { return Decides(*store); }))
      << "the sentinels repair it";
  store->Stop();
  EXPECT_THAT(log.text(), HasSubstr("it is not a master"));
}

TEST_F(SentinelStore, FirstSentinelsAreGone_NextOneIsAsked) {
  RedisSentinels redis({});
  const std::string url = redis.Url();
  redis.KillSentinel(0);
  redis.KillSentinel(1);
  const auto store = Connect(url);
  EXPECT_TRUE(store->WaitUntilReady(kTopologyTimeout));
  EXPECT_TRUE(Decides(*store));
  redis.KillSentinel(2);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Decides(*store)) << "the last known master is used";
}

TEST_F(SentinelStore, MasterUnknownToSentinels_IsLogged) {
  RedisSentinels redis({});
  std::string url = redis.Url();
  url.replace(url.find("/mymaster"), 9, "/absent");
  CapturedLog log;
  const auto store = Connect(url);
  EXPECT_TRUE(WaitUntil(kTopologyTimeout,
                        [&] { return log.CountLines("has no master named absent") > 0; }));
  EXPECT_FALSE(store->WaitUntilReady(milliseconds(300)));
  store->Stop();
  EXPECT_EQ(log.CountLines("has no master named absent"), 1) << log.text();
}

TEST_F(SentinelStore, JoinsItsFleet) {
  RedisSentinels redis({});
  const auto store = Connect(redis.Url());
  std::atomic<std::int64_t> servers = 0;
  store->JoinFleet([&](const redis::FleetView& view) { servers = view.servers; });
  EXPECT_TRUE(WaitUntil(kTopologyTimeout, [&] { return servers == 1; }));
  store->Stop();
}

}  // namespace
}  // namespace sluice::test
